#!/usr/bin/env bash
# Two network namespaces joined by a link of a given rate, a command in each; everything is taken down at the end.
# Needs root, ip and tc (iproute2).
#
#   bench/netns.sh [--rate 1gbit] [--burst 256kb] -- COMMAND...
#
# COMMAND runs in both at once, with RANK (0, 1), WORLD (2), ADDRESS (this side's), PEER (the other's) and
# LINK (the interface's name) in its environment, and rank 0's output first. Ends with the first exit code that is not 0.
# Rate "none" leaves the link as fast as it is.
set -euo pipefail

usage() { sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

rate=1gbit burst=256kb
while [ $# -gt 0 ]; do
  case $1 in
    --rate) rate=$2 && shift 2 ;;
    --burst) burst=$2 && shift 2 ;;
    --) shift && break ;;
    *) usage >&2 && exit 2 ;;
  esac
done
[ $# -gt 0 ] || { usage >&2 && exit 2; }
[ "$(id -u)" -eq 0 ] || { echo "bench/netns.sh needs root" >&2 && exit 2; }

# Names of our own: two runs at the same time do not meet.
names=("starling$$a" "starling$$b")
links=("sl$$a" "sl$$b")
addresses=(10.213.77.1 10.213.77.2)
out=$(mktemp -d)
pids=()

clean_up() {
  local pid name
  for pid in "${pids[@]:-}"; do [ -z "$pid" ] || kill "$pid" 2>/dev/null || true; done
  for name in "${names[@]}"; do ip netns del "$name" 2>/dev/null || true; done
  rm -rf "$out"
}
trap clean_up EXIT

for name in "${names[@]}"; do ip netns add "$name"; done
ip link add "${links[0]}" netns "${names[0]}" type veth peer name "${links[1]}" netns "${names[1]}"
for side in 0 1; do
  ip -n "${names[side]}" addr add "${addresses[side]}/24" dev "${links[side]}"
  ip -n "${names[side]}" link set lo up
  ip -n "${names[side]}" link set "${links[side]}" up
  if [ "$rate" != none ]; then
    ip netns exec "${names[side]}" tc qdisc add dev "${links[side]}" root tbf rate "$rate" burst "$burst" latency 50ms
  fi
done

for side in 0 1; do
  RANK=$side WORLD=2 ADDRESS=${addresses[side]} PEER=${addresses[1 - side]} LINK=${links[side]} \
    ip netns exec "${names[side]}" "$@" >"$out/$side" 2>&1 &
  pids+=($!)
done
code=0
for side in 0 1; do
  wait "${pids[side]}" || { last=$? && [ "$code" -ne 0 ] || code=$last; }
done
pids=()
for side in 0 1; do cat "$out/$side"; done
exit "$code"
