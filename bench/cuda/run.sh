#!/usr/bin/env bash
# Both sides on this machine's GPU, in turns: bench/cuda/run.sh STARLING [ROUNDS] [LINES] [NETS]
#   STARLING  the program, built with STARLING_CUDA=ON        LINES  where the JSON lines go
#   NETS      of bench/peer/catalogue.py, with the batches there
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
starling=${1:?expected the starling program, got nothing}
rounds=${2:-3}
lines=${3:-$(mktemp)}
nets=${4:-mlp sae_small sae_big lenet alexnet resnet18 gpt lstm}
: > "$lines"
for round in $(seq "$rounds"); do
  modes=graph-fused,graph-foreach,graph-channels-last
  [ "$round" -eq 1 ] && modes=$modes,graph-compiled
  for net in $nets; do
    "$starling" bench "$net" --device cuda --phase train --mode compiled --seconds 2 --json >> "$lines"
    python3 "$here/peer.py" --nets "$net" --modes "$modes" --samples 30 >> "$lines"
  done
done
python3 "$here/summary.py" "$lines"
