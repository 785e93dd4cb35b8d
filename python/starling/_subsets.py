"""Data sets made of others: parts of one, several in a row, tensors side by side."""

from __future__ import annotations

import math
from typing import Any, Iterable, Sequence

import numpy as np

from . import _starling
from ._pipeline import _Columns


def _indexed(data: Any) -> Any:
    """Something with __len__ and __getitem__; arrays, in a tuple or by name, give their samples."""
    arrays = isinstance(data, tuple) and bool(data) and all(hasattr(column, "shape") for column in data)
    named = isinstance(data, dict) and bool(data) and all(hasattr(column, "shape") for column in data.values())
    if arrays or named:
        return _Columns(data)
    if hasattr(data, "__len__") and hasattr(data, "__getitem__") and not isinstance(data, (str, dict)):
        return data
    raise TypeError(f"[data] expected arrays or an object with __len__ and __getitem__, got {type(data).__name__}: data.dataset(name) reads a source")


class Subset:
    """The samples of a data set at these numbers."""

    def __init__(self, data: Any, indices: Iterable[int]):
        self.data = _indexed(data)
        self.indices = [int(i) for i in indices]

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, i: int) -> Any:
        return self.data[self.indices[i]]


class ConcatDataset:
    """Data sets one after another."""

    def __init__(self, parts: Iterable[Any]):
        self.parts = [_indexed(part) for part in parts]
        if not self.parts:
            raise ValueError("[data] expected data sets to put in a row, got none")
        self._ends = np.cumsum([len(part) for part in self.parts])

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, i: int) -> Any:
        i = range(len(self))[i]
        at = int(np.searchsorted(self._ends, i, side="right"))
        return self.parts[at][i - (int(self._ends[at - 1]) if at else 0)]


class TensorDataset(_Columns):
    """Samples of tensors or arrays of equal length: TensorDataset(x, y). A tuple of them is one, too."""

    def __init__(self, *tensors: Any):
        super().__init__(tuple(_starling.asarray(tensor) for tensor in tensors))
        self.tensors = self._columns


def random_split(data: Any, lengths: Sequence[float], seed: int = 0) -> list[Subset]:
    """Parts of a data set with so many samples each, or such shares of them, drawn at random by the seed."""
    indexed = _indexed(data)
    total = len(indexed)
    shares = not all(isinstance(length, int) for length in lengths)
    sizes = [math.floor(total * length) for length in lengths] if shares else [int(length) for length in lengths]
    if shares and abs(sum(lengths) - 1) < 1e-6:
        for i in range(total - sum(sizes)):
            sizes[i % len(sizes)] += 1
    if sum(sizes) != total or min(sizes, default=-1) < 0:
        raise ValueError(f"[data] expected lengths that add up to {total}, or shares that add up to 1, got {list(lengths)}")
    order = np.random.default_rng(seed).permutation(total)
    ends = np.cumsum(sizes)
    return [Subset(data, order[end - size : end]) for end, size in zip(ends, sizes)]
