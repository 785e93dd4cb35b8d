# Shared by the scripts: where the tree is, how steps are told, where logs go. Source it; it runs nothing.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
jobs=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
log=$root/build/log/$(basename "$0").log

say() { printf '%s\n' "$*"; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

start_log() {
  mkdir -p "$(dirname "$log")"
  : >"$log"
}

# logged COMMAND...: runs it with its output in the log; on failure shows the end of that log and passes the status on.
logged() {
  local from status=0
  from=$(wc -l <"$log")
  printf '\n$ %s\n' "$*" >>"$log"
  "$@" >>"$log" 2>&1 || status=$?
  if [ "$status" -ne 0 ]; then
    say "    failed: $*" >&2
    tail -n +"$((from + 1))" "$log" | tail -n 60 | sed 's/^/    | /' >&2
    say "    the whole log: $log" >&2
  fi
  return "$status"
}

# build_preset PRESET [TARGET...]: configures and builds, quietly.
build_preset() {
  local preset=$1
  shift
  local targets=()
  [ $# -eq 0 ] || targets=(--target "$@")
  (cd "$root" && logged cmake --preset "$preset" &&
    logged cmake --build --preset "$preset" --parallel "$jobs" "${targets[@]}")
}

# Every C++ and CUDA source of the tree, one a line: what git tracks or would track, or what is found without git.
list_sources() {
  cd "$root" || return
  if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    # A file deleted but still in the index is no source any more.
    git ls-files --cached --others --exclude-standard '*.h' '*.cpp' '*.cu' '*.cuh' | sort -u |
      while IFS= read -r file; do [ ! -f "$file" ] || printf '%s\n' "$file"; done
  else
    find src tests bench examples -type f \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) | sort
  fi
}
