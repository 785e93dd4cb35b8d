#!/usr/bin/env bash
# use_packages.sh FOLDER: installs the .deb of a folder on this bare machine, trains with it and builds a program against it;
# then does the same with the tarball, unpacked elsewhere. Run by scripts/fresh_machine, inside the root.
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
source "$here/common.sh"
folder=$1
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)

start_log
say "    the .deb and what it needs"
logged "${as_root[@]}" apt-get update
logged "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
  "$folder"/*.deb g++ cmake ninja-build dataset-fashion-mnist

# try_out PROGRAM EXAMPLES CMAKE OPTION...: trains one tiny preset and builds the outside project against the package.
try_out() {
  local program=$1 examples=$2 work
  shift 2
  work=$(mktemp -d)
  "$program" doctor >/dev/null
  logged "$program" train "$examples/systems/caffe.yaml" --set train.folder="$work/run" --set train.steps=20
  cp -r "$root/tests/install/outside" "$work/outside"
  logged cmake -S "$work/outside" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release "$@"
  logged cmake --build "$work/build"
  "$work/build/outside"
  "$work/build/outside_shared"
  "$work/build/outside_c"
}
say "    the program and a project against the .deb"
try_out starling /usr/share/starling/examples
"${as_root[@]}" apt-get remove -y starling >/dev/null
say "    the same with the tarball"
prefix=$(mktemp -d)
tar -xf "$folder"/*.tar.gz -C "$prefix" --strip-components=1
try_out "$prefix/bin/starling" "$prefix/share/starling/examples" -DCMAKE_PREFIX_PATH="$prefix"
