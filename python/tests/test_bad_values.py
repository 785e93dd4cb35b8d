"""Everything public, called with values that it does not expect: an exception of Python's each, or a result; the process lives and keeps nothing."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

PROGRAM = pathlib.Path(__file__).parent / "bad_values.py"


def called(folder, seed, calls, seconds):
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(seed), str(calls)], cwd=folder, capture_output=True, text=True, timeout=seconds, env=dict(os.environ)
    )
    last = (folder / "call").read_bytes().decode(errors="replace") if (folder / "call").exists() else "none"
    assert done.returncode == 0, f"ended with {done.returncode} in the call {last}\n{done.stderr}"
    told = json.loads(done.stdout.splitlines()[-1])
    memory, objects, threads = told["kept"]
    came, again = told["came"], told["again"]
    changed = sum(abs(came.get(kind, 0) - again.get(kind, 0)) for kind in {*came, *again})
    short = max(came.get("MemoryError", 0), again.get("MemoryError", 0))  # what is free may do once and not the next time
    assert changed <= 2 * short and sum(came.values()) == sum(again.values()) and told["targets"] > 1000, (came, again)
    assert "SystemError" not in told["came"] and told["came"]["result"] > calls / 50
    assert memory < 32 << 20 and objects < 200 and threads <= 0, told["kept"]


def test_bad_values_are_exceptions(tmp_path):
    called(tmp_path, seed=1, calls=4000, seconds=120)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(2, 6))
def test_many_bad_values_are_exceptions(seed, tmp_path):
    called(tmp_path, seed, calls=60000, seconds=900)


def test_ranks_of_any_number_are_refused_before_they_are_made():
    import starling as sl

    for ranks in (0, -1, 1 << 20, 1 << 31, 1 << 70, "2", None, 1.5):
        with pytest.raises((TypeError, ValueError, OverflowError, sl.Error)):
            sl.dist.spawn(lambda: None, ranks)
