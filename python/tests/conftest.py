import pytest

import starling as sl


@pytest.fixture(autouse=True)
def seeded():
    """Every test draws the same numbers, whatever ran before it."""
    sl.manual_seed(1)
