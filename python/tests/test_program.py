"""The program of the package, as `python -m starling`."""

import subprocess
import sys

import pytest

import starling as sl
from starling.__main__ import PROGRAM


def program(*arguments, seconds=60):
    return subprocess.run([sys.executable, "-m", "starling", *arguments], capture_output=True, text=True, timeout=seconds)


def test_python_m_starling_is_the_program(tmp_path):
    if not tmp_path.joinpath(PROGRAM).exists():
        done = program("--version")
        assert done.returncode == 1 and "expected the program in" in done.stderr, done.stderr
        pytest.skip("this package was built without the program")
    done = program("--version")
    assert (done.returncode, done.stdout) == (0, f"starling {sl.__version__}\n"), done.stderr
    wrong = program("trian")
    assert wrong.returncode == 2 and "did you mean 'train'" in wrong.stderr, wrong.stderr
    assert "caffe" in program("systems").stdout  # its presets are found beside it


def test_it_launches_python(tmp_path):
    if not tmp_path.joinpath(PROGRAM).exists():
        pytest.skip("this package was built without the program")
    script = "import os; print('I am', os.environ['STARLING_RANK'], 'of', os.environ['STARLING_WORLD'], flush=True)"
    done = program("launch", "-n", "2", "--", sys.executable, "-c", script)
    assert done.returncode == 0 and {"I am 0 of 2", "I am 1 of 2"} <= set(done.stdout.replace("] ", "]\n").split("\n")), done
