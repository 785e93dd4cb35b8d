"""Data: sources by name, arrays and Python objects, in batches made ahead of time."""

from __future__ import annotations

import atexit as _atexit
import json as _json
import weakref as _weakref
from typing import Any, Callable, Iterator

import numpy as _np

from . import _pipeline, _starling
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
    if _is_columns(source):
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
    """Batches of a data set, one epoch per loop: for x, y in Loader("fashion_mnist", batch=64).

    source: the name of a source, arrays, an object with __len__ and __getitem__, or any iterable of samples, which is read from its
    beginning for every epoch, in its own order. transform(sample) is applied to the samples of Python objects and iterables.
    workers make batches ahead of time: threads, which is right for NumPy and files, or, with processes=True, processes, for
    Python code that computes. Batches do not depend on their number. batch counts the samples of all ranks. Samples that are dicts make
    batches that are dicts. collate_fn(list of samples) makes a batch instead, whatever it is.
    """

    def __init__(
        self,
        source: Any,
        batch: int,
        *,
        split: str = "train",
        shuffle: bool | None = None,
        seed: int = 0,
        drop_last: bool = False,
        workers: int = 1,
        processes: bool = False,
        transform: Callable[[Any], Any] | None = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        rank: int = 0,
        ranks: int = 1,
        **options: Any,
    ):
        _expect(batch >= 1, f"a batch of at least one sample, got {batch}")
        _expect(workers >= 1, f"at least one worker, got {workers}")
        _expect(0 <= rank < ranks, f"a rank below {ranks}, got {rank}")
        self._epoch: Callable[[], Iterator[Any]]
        self._own_batches = collate_fn is not None
        self._plain = False  # whether batches are the library's loader's
        order = (True if shuffle is None else shuffle, seed, drop_last, workers, rank, ranks)
        if _is_stream(source):
            _expect(not shuffle, "shuffle=False for an iterable, whose order is its own, got True")
            self.dataset: Any = source
            self._base: Any = None
            self._epoch = lambda: _of_stream(source, batch, drop_last, rank, ranks, transform, collate_fn, workers, processes)
            return
        if processes or transform is not None or collate_fn is not None or _has_dicts(source):
            _expect(_is_indexed(source), "an object with __len__ and __getitem__ or an iterable for processes, transform and collate_fn")
            self.dataset = source
            # Which samples a batch has is what a loader over their numbers says: the same as without processes.
            self._base = _starling.LoaderBase(_starling._columns((_np.arange(len(source)),)), batch, *order)
            self._epoch = lambda: _pipeline.batches(
                (numbers.numpy() for numbers in self._taken()), _pipeline._Rows(source, transform, collate_fn), workers, processes
            )
        else:
            self.dataset = dataset(source, split, **options)
            self._base = _starling.LoaderBase(self.dataset, batch, *order)
            self._epoch = self._taken
            self._plain = True
        _running.add(self._base)

    def _taken(self) -> Iterator[Any]:
        self._base.begin_epoch()  # where an earlier loop was left before its end
        while (batch := self._base.next()) is not None:
            yield batch

    def __iter__(self) -> Iterator[Any]:
        for batch in self._epoch():
            yield batch if self._own_batches or self._plain else _pipeline.tensors(batch)

    def __len__(self) -> int:
        if self._base is None:
            raise TypeError("[data] expected a source of known length, got an iterable")
        return int(self._base.batches)


def _expect(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"[data] expected {what}")


def _is_indexed(source: Any) -> bool:
    plain = isinstance(source, (str, dict, Dataset)) or _is_columns(source)
    return not plain and hasattr(source, "__len__") and hasattr(source, "__getitem__")


def _has_dicts(source: Any) -> bool:
    return _is_indexed(source) and len(source) > 0 and isinstance(source[0], dict)


def _is_columns(source: Any) -> bool:
    return isinstance(source, (tuple, list)) and bool(source) and all(hasattr(column, "shape") for column in source)


def _is_stream(source: Any) -> bool:
    if isinstance(source, (str, dict, Dataset)) or _is_columns(source):
        return False
    return hasattr(source, "__iter__") and not _is_indexed(source)


def _of_stream(
    source: Any, batch: int, drop_last: bool, rank: int, ranks: int, transform: Any, collate: Any, workers: int, processes: bool
) -> Iterator[Any]:
    samples = _pipeline.grouped(iter(source), batch, drop_last, rank, ranks)
    any_batch = False
    for made in _pipeline.batches(samples, _pipeline._Samples(transform, collate), workers, processes):
        any_batch = True
        yield made
    # A generator that an earlier epoch has used up would train on nothing from then on.
    _expect(any_batch, f"an iterable with samples, which can be read again, got none from {type(source).__name__}")
