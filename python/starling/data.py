"""Data: sources by name, arrays and Python objects, in batches made ahead of time."""

from __future__ import annotations

import atexit as _atexit
import json as _json
import weakref as _weakref
from typing import Any, Iterator

from . import _starling
from ._starling import Dataset as Dataset  # noqa: F401

sources = _starling._source_kinds


def read(source: str | dict[str, Any], **options: Any) -> _starling.DataSplits:
    """The splits of a data source by its name in job files: read("fashion_mnist").train."""
    given = dict(source, **options) if isinstance(source, dict) else {"name": source, **options}
    return _starling._read_source(_json.dumps(given))


def dataset(source: Any, split: str = "train", **options: Any) -> Dataset:
    """A data set: a source's split by name, arrays of equal length, or an object with __len__ and __getitem__."""
    if isinstance(source, Dataset):
        return source
    if isinstance(source, (str, dict)):
        made: Dataset | None = getattr(read(source, **options), split)
        if made is None:
            raise ValueError(f"[data] expected a source with the split '{split}', got {source!r}, which has none")
        return made
    if options:
        raise TypeError(f"[data] expected options only for sources by name, got {', '.join(options)}")
    if isinstance(source, (tuple, list)) and source and all(hasattr(column, "shape") for column in source):
        return _starling._columns(source)
    if hasattr(source, "__len__") and hasattr(source, "__getitem__"):
        return _starling._python_dataset(source)
    raise TypeError(
        "[data] expected the name of a source, a tuple of arrays, or an object with __len__ and __getitem__, "
        f"got {type(source).__name__}"
    )


# Loaders whose threads may ask Python for samples: they end before the interpreter does.
_running: _weakref.WeakSet[_starling.LoaderBase] = _weakref.WeakSet()


@_atexit.register
def _stop_all() -> None:
    for base in list(_running):
        base.stop()


class Loader:
    """Batches of a data set, one epoch per loop: for x, y in Loader("fashion_mnist", batch=64)."""

    def __init__(
        self,
        source: Any,
        batch: int,
        *,
        split: str = "train",
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        workers: int = 1,
        rank: int = 0,
        ranks: int = 1,
        **options: Any,
    ):
        self.dataset = dataset(source, split, **options)
        self._base = _starling.LoaderBase(self.dataset, batch, shuffle, seed, drop_last, workers, rank, ranks)
        _running.add(self._base)

    def __iter__(self) -> Iterator[Any]:
        self._base.begin_epoch()  # where an earlier loop was left before its end
        while (batch := self._base.next()) is not None:
            yield batch

    def __len__(self) -> int:
        return self._base.batches
