#!/usr/bin/env bash
# Both sides on this machine's GPU, in turns: bench/cuda/run.sh STARLING [ROUNDS] [LINES]
#   STARLING  the program, built with STARLING_CUDA=ON        LINES  where the JSON lines go
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
starling=${1:?expected the starling program, got nothing}
rounds=${2:-3}
lines=${3:-$(mktemp)}
: > "$lines"
for round in $(seq "$rounds"); do
  modes=graph-fused,graph-foreach
  [ "$round" -eq 1 ] && modes=$modes,graph-compiled
  for net in mlp sae_small sae_big; do
    "$starling" bench "$net" --device cuda --batch 64 --phase train --mode compiled --seconds 2 --json >> "$lines"
    python3 "$here/peer.py" --nets "$net" --modes "$modes" --batch 64 >> "$lines"
  done
done
python3 "$here/summary.py" "$lines"
