# The Debian packages Starling needs, and how they get onto a machine. Source it after common.sh. Names hold on Debian 12 and
# 13; what only benchmarks need is installed by bench/ceilings/build.

build_packages=(
  g++ cmake ninja-build ccache pkg-config
  libhwy-dev libfmt-dev libyaml-cpp-dev libcli11-dev nlohmann-json3-dev libxxhash-dev zlib1g-dev
  libopenblas-openmp-dev
  libprotobuf-dev protobuf-compiler
  libjpeg62-turbo-dev libpng-dev
  libgloo-dev libopenmpi-dev openmpi-bin libzmq3-dev
)
# Real data of the examples: pictures; words and their sounds; sayings, for models of letters.
quickstart_packages=(dataset-fashion-mnist)
data_packages=(dataset-fashion-mnist pocketsphinx-en-us fortunes)
# libhdf5-dev: optional where Starling is built, needed to test reading of HDF5.
# lua5.4, default-jdk-headless: languages that the C interface is tested from.
# dpkg-dev tells which libraries the .deb needs.
test_packages=(libgtest-dev clang-format libhdf5-dev git python3 python3-venv python3-dev dpkg-dev iproute2
  lua5.4 liblua5.4-dev default-jdk-headless)
# Only of the stage tidy, which installs them. libomp-dev has the omp.h that clang-tidy reads; nothing links it.
tidy_packages=(clang-tidy libomp-dev)
bench_packages=(libdnnl-dev ocl-icd-opencl-dev)

missing_packages() {
  local package
  for package in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || printf '%s\n' "$package"
  done
}

# How this user becomes root, in `as_root`; fails where there is no way.
find_root() {
  as_root=()
  [ "$(id -u)" -ne 0 ] || return 0
  command -v sudo >/dev/null || return 1
  as_root=(sudo)
  # Without a terminal sudo cannot ask for a password.
  [ -t 0 ] || sudo -n true 2>/dev/null
}

# ensure_packages PACKAGE...: installs those that are missing; does nothing, and asks for nothing, when none is.
ensure_packages() {
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    say "    no apt here: taking these Debian packages, or what they are called here, as installed:"
    say "    $*"
    return 0
  fi
  local missing
  mapfile -t missing < <(missing_packages "$@")
  if [ "${#missing[@]}" -eq 0 ]; then
    say "    all $# present"
    return 0
  fi
  find_root || die "these packages are missing and need root: run  apt-get install ${missing[*]}"
  say "    installing ${missing[*]}"
  # A failed update is not yet a failure: the packages may be in the lists already.
  logged "${as_root[@]}" apt-get update || true
  logged "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}" ||
    die "could not install ${missing[*]}"
}
