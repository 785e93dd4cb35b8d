#!/usr/bin/env bash
# use_wheel.sh FOLDER: installs the wheel of a folder on this bare machine and trains with it, alone, as ranks of `starling launch`
# and, once Open MPI is there, as ranks of mpirun and over TCP. Run by scripts/fresh_machine, inside the root, where nothing is but Python.
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
source "$here/common.sh"
source "$here/packages.sh"
folder=$1

start_log
ensure_packages python3 python3-venv
work=$(mktemp -d)
logged python3 -m venv "$work/venv"
logged "$work/venv/bin/pip" install --disable-pip-version-check "$folder"/*.whl
cd "$work"  # away from the sources: what is imported is the wheel's
cat >train.py <<'PROGRAM'
import sys
import numpy as np
import starling as sl

assert "site-packages" in sl.__file__, sl.__file__
sl.manual_seed(1)
net = sl.zoo.lenet(classes=10)
optimizer = sl.optim.Adam(net.parameters(), lr=1e-3)

@sl.compile
def step(x, y):
    loss = sl.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    return loss

for x, y in sl.data.Loader("synthetic", batch=64, train_samples=2000, shape=[1, 28, 28]):
    loss = step(x, y)
job = {"model": "mlp", "data": {"name": "synthetic", "train_samples": 2000}, "optimizer": {"name": "sgd", "lr": 0.05},
       "train": {"epochs": 2, "folder": "run"}, "distribute": {"workers": 2}}
summary = sl.train.run(job, quiet=True)
print(f"starling {sl.__version__} on Python {sys.version.split()[0]}: lenet's loss {loss.item():.3f}, "
      f"mlp's accuracy {summary['metrics']['test_accuracy']:.3f}")
assert loss.item() < 1.5 and summary["metrics"]["test_accuracy"] > 0.8 and np.isfinite(loss.item())
PROGRAM
cat >ranks.py <<'PROGRAM'
import pathlib
import sys
import numpy as np
import starling as sl

sl.dist.init()
rank, size = sl.dist.rank(), sl.dist.size()
assert sl.dist.all_reduce(sl.tensor([rank + 1.0])).item() == size * (size + 1) / 2
sl.manual_seed(2)
net = sl.nn.Linear(4, 2)
optimizer = sl.optim.SGD(net.parameters(), lr=0.1)

def loss_of(x, y):
    loss = sl.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    return loss

step = sl.compile(loss_of, strategy=sl.dist.allreduce(deterministic=True))
x, y = np.random.default_rng(0).normal(size=(24, 4)).astype(np.float32), np.arange(24) % 2
mine = slice(rank * 24 // size, (rank + 1) * 24 // size)
for _ in range(3):
    step(x[mine], y[mine])
pathlib.Path(sys.argv[1], f"{rank}of{size}").write_text(net.state_dict()["weight"].numpy().tobytes().hex())
PROGRAM
PATH=$work/venv/bin:$PATH

# ranks_end_alike NAME RANKS COMMAND...: as many ranks run ranks.py and end in the bits of one process by itself.
ranks_end_alike() {
  local name=$1 ranks=$2 rank
  shift 2
  mkdir "$name"
  logged timeout 300 "$@" python ranks.py "$name"
  [ "$(find "$name" -type f | wc -l)" -eq "$ranks" ] || die "$name: expected $ranks ranks, got: $(ls "$name")"
  for ((rank = 0; rank < ranks; ++rank)); do
    cmp alone/0of1 "$name/${rank}of$ranks" || die "$name: expected the bits of one process from rank $rank"
  done
  say "    $name: $ranks rank(s), the bits of one process"
}

# needs_no_mpi: of what the wheel carries, only what is loaded when ranks ask for it needs MPI: libstarling_mpi.so and, where Debian's
# Gloo needs it, libstarling_gloo.so with that Gloo.
needs_no_mpi() {
  local package file
  package=$(python -c 'import importlib.util; print(importlib.util.find_spec("starling").submodule_search_locations[0])')
  [ -z "$(find "$package" -name 'libmpi*')" ] || die "expected no MPI in the wheel, got $(find "$package" -name 'libmpi*')"
  [ -f "$package/lib/libstarling_mpi.so" ] || die "expected libstarling_mpi.so in the wheel, got none"
  find "$package" -type f \( -name '*.so*' -o -path '*/bin/*' \) ! -name libstarling_mpi.so >carried
  if [ -f "$package/lib/libstarling_gloo.so" ]; then
    grep -vE '/(libstarling_gloo\.so|libgloo\.so[.0-9]*)$' carried >others && mv others carried
  fi
  [ "$(wc -l <carried)" -gt 5 ] || die "expected the libraries that the wheel carries, got $(cat carried)"
  while read -r file; do
    # Bundled libraries find each other by the path of what loads them: they are asked with that.
    LD_LIBRARY_PATH=$package/lib ldd "$file" >needs
    ! grep -E 'libmpi|libopen-(rte|pal)|not found' needs || die "$file: expected that it needs no MPI and finds all it needs"
  done <carried
  say "    $(wc -l <carried) files of the wheel need no MPI; it takes $(du -sh "$package" | cut -f1)"
}

# tells_what_tcp_needs: without MPI, ranks over TCP work, or the error names the library of MPI that Gloo asks for.
tells_what_tcp_needs() {
  local package
  package=$(python -c 'import importlib.util; print(importlib.util.find_spec("starling").submodule_search_locations[0])')
  if [ ! -f "$package/lib/libstarling_gloo.so" ]; then
    ranks_end_alike tcp_without_mpi 2 starling launch -n 2 --backend gloo --
    return
  fi
  starling doctor | grep -E 'no Gloo \(libmpi\.so[.0-9]*: ' || die "expected from starling doctor that Gloo lacks MPI, got: $(starling doctor)"
  mkdir refused
  ! timeout 300 starling launch -n 2 --backend gloo -- python ranks.py refused >refused.txt 2>&1 ||
    die "expected ranks over TCP to need MPI here, got none that did"
  grep -E '\[gloo\].*libmpi\.so' refused.txt >/dev/null || die "expected an error that names libmpi.so, got: $(cat refused.txt)"
  say "    ranks over TCP, without MPI: $(grep -m 1 -oE '\[gloo\].*' refused.txt)"
}

python train.py
say "    the program: $(starling --version), started from a script; python -m starling: $(python -m starling --version)"
[ "$(starling --version)" = "starling $(python -c 'import starling; print(starling.__version__)')" ] || die "expected one version"
[ "$(python -m starling --version)" = "$(starling --version)" ] || die "expected the same program from python -m starling"
starling systems | grep caffe >/dev/null || die "expected the presets of starling systems in the wheel, got none"
needs_no_mpi
ranks_end_alike alone 1 env
ranks_end_alike launch 2 starling launch -n 2 --
tells_what_tcp_needs
ensure_packages openmpi-bin
ranks_end_alike mpirun 2 mpirun --allow-run-as-root --oversubscribe -n 2
ranks_end_alike tcp 2 starling launch -n 2 --backend gloo --
