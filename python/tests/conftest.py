import os
import pathlib
import subprocess

import pytest

import starling as sl
from memory import SANITIZED

# Programs that tests start find the same package from any folder.
os.environ["PYTHONPATH"] = str(pathlib.Path(sl.__file__).absolute().parents[1])


@pytest.fixture(autouse=True)
def seeded():
    """Every test draws the same numbers, whatever ran before it."""
    sl.manual_seed(1)


@pytest.fixture(autouse=SANITIZED)
def starts_no_program(monkeypatch):
    """Programs of their own would have to bear the runtimes of the sanitizers, too."""

    def skip(*_, **__):
        pytest.skip("starts a program, which would have to bear the runtimes of the sanitizers")

    for name in ("run", "Popen"):
        monkeypatch.setattr(subprocess, name, skip)
