#!/usr/bin/env bash
# use_wheel.sh FOLDER: installs the wheel of a folder on this bare machine and trains with it. Run by scripts/fresh_machine, inside
# the root, where nothing is but Python.
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
"$work/venv/bin/python" train.py
