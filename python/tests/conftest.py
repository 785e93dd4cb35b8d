import os
import pathlib

import pytest

import starling as sl

# Programs that tests start find the same package from any folder.
os.environ["PYTHONPATH"] = str(pathlib.Path(sl.__file__).absolute().parents[1])


@pytest.fixture(autouse=True)
def seeded():
    """Every test draws the same numbers, whatever ran before it."""
    sl.manual_seed(1)
