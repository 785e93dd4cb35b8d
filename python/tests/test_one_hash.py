"""One job ends in one set of weights, to the bit: by the C++ program, from Python, on threads, under `starling launch` and mpirun."""

import json
import shutil
import subprocess

import pytest

import starling as sl
from ranks import run_script, starling_program

JOB = """
model: {name: lenet, classes: 4}
data: {name: synthetic, shape: [1, 16, 16], classes: 4, train_samples: 96, test_samples: 24, batch: 24}
optimizer: {name: adam, lr: 0.01}
train: {epochs: 2, seed: 7}
distribute: {deterministic: true}
"""
FROM_PYTHON = """
    import sys, starling as sl
    summary = sl.train.run("job.yaml", set=sys.argv[1:], quiet=True)
    assert summary["steps"] == 8, summary
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("one_hash")
    (made / "job.yaml").write_text(JOB)
    return made


@pytest.fixture(scope="module")
def programs_hash(folder):
    """What `starling train`, one worker in C++, ends in."""
    if not starling_program():
        pytest.skip("STARLING_PROGRAM does not name the program `starling`")
    command = [starling_program(), "train", "job.yaml", "--set", "train.folder=program"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return told(folder, "program", 1)


def told(folder, run, workers):
    """The hash of a run that as many workers made."""
    summary = json.loads((folder / run / "summary.json").read_text())
    assert max(len(summary.get("ranks", [])), 1) == workers and len(summary["weights_hash"]) > 8, summary
    return summary["weights_hash"]


def python_ran(folder, run, command=(), options=()):
    done = run_script(FROM_PYTHON, folder, command=command, arguments=[f"train.folder={run}", *options], folder=folder)
    assert done.returncode == 0, done.stdout + done.stderr


def test_one_process(folder, programs_hash, monkeypatch):
    monkeypatch.chdir(folder)
    assert sl.train.run("job.yaml", set=["train.folder=alone"], quiet=True)["weights_hash"] == programs_hash
    other = sl.train.run("job.yaml", set=["train.folder=other", "train.seed=8"], quiet=True)
    assert other["weights_hash"] != programs_hash  # or the hashes would tell nothing


def test_two_threads(folder, programs_hash, monkeypatch):
    monkeypatch.chdir(folder)
    sl.train.run("job.yaml", set=["train.folder=threads", "distribute.workers=2"], quiet=True)
    assert told(folder, "threads", 2) == programs_hash


def test_starling_launch(folder, programs_hash):
    python_ran(folder, "launch", [starling_program(), "launch", "-n", "2", "--"])
    assert told(folder, "launch", 2) == programs_hash


def test_mpirun(folder, programs_hash):
    if shutil.which("mpirun") is None:
        pytest.skip("mpirun is not installed")
    python_ran(folder, "mpirun", ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2"])
    assert told(folder, "mpirun", 2) == programs_hash
