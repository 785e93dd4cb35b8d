#!/usr/bin/env bash
# Both sides on this machine's GPU, in turns: bench/cuda/run.sh STARLING [ROUNDS] [LINES] [CASES]
#   STARLING  the program, built with STARLING_CUDA=ON        LINES  where the JSON lines go; LINES.cases: one per case
#   CASES     net[:batch[:precision[:phase]]] of bench/peer/catalogue.py; 0 as a batch: the one there
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
starling=${1:?expected the starling program, got nothing}
rounds=${2:-3}
lines=${3:-$(mktemp)}
training="mlp sae_small sae_big lenet alexnet resnet18 gpt lstm
  alexnet:256:bf16 alexnet_owt:128:bf16 resnet50:128:bf16 gpt2:16:bf16"
cases=${4:-$training resnet50:1:bf16:forward resnet50:32:bf16:forward}
: > "$lines"
for round in $(seq "$rounds"); do
  modes=graph-fused,graph-foreach,graph-channels-last
  [ "$round" -eq 1 ] && modes=$modes,graph-compiled,graph-compiled-channels-last
  for case in $cases; do
    IFS=: read -r net batch precision phase <<< "$case"
    what=(--batch "${batch:-0}" --precision "${precision:-f32}" --phase "${phase:-train}")
    "$starling" bench "$net" "${what[@]}" --device cuda --mode compiled --seconds 2 --json >> "$lines"
    python3 "$here/peer.py" --nets "$net" "${what[@]}" --modes "$modes" --samples 30 >> "$lines"
  done
done
python3 "$here/summary.py" "$lines" "$lines.cases"
