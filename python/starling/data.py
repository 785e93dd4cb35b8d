"""Data: sources by name, arrays and Python objects, in batches made ahead of time."""

from __future__ import annotations

import atexit as _atexit
import itertools as _itertools
import json as _json
import weakref as _weakref
from typing import Any, Callable, Iterator

import numpy as _np

from . import _pipeline, _starling
from ._starling import Dataset as Dataset  # noqa: F401
from ._subsets import ConcatDataset as ConcatDataset, Subset as Subset, TensorDataset as TensorDataset, random_split as random_split

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
        if isinstance(source, dict) and _is_named(source):
            return _starling._columns(tuple(source.values()))
        if split not in _SPLITS:
            raise ValueError(f"[data] expected one of {', '.join(_SPLITS)} as the split, got {split!r}")
        made: Dataset | None = getattr(read(source, **options), split)
        if made is None:
            raise ValueError(f"[data] expected a source with the split '{split}', got {source!r}, which has none")
        return made
    if options:
        raise TypeError(f"[data] expected options only for sources by name, got {', '.join(options)}{_ours(options)}")
    if isinstance(source, tuple) and source and all(isinstance(column, list) for column in source):
        raise TypeError("[data] expected a tuple of arrays, got one of lists: numpy.asarray() of each, or a list of samples")
    if isinstance(source, TensorDataset):
        return _starling._columns(source.tensors)
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
    batches that are dicts, and so are arrays by name. collate_fn(list of samples) makes a batch instead, whatever it is. state_dict() and load_state_dict() keep the
    position, to go on from the exact sample.
    """

    def __init__(
        self,
        source: Any,
        batch: int = 0,
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
        _expect_words(source, split, options)
        _expect_ints(batch=batch, workers=workers, rank=rank, ranks=ranks, seed=seed)
        _expect(batch >= 1, f"a batch of at least one sample, got {batch}")
        _expect(workers >= 1, f"at least one worker, got {workers}")
        _expect(0 <= rank < ranks, f"a rank below {ranks}, got {rank}")
        self._made: Callable[[int, int], Iterator[tuple[Any, int]]]  # from a position to the end of its epoch
        self._own_batches = collate_fn is not None
        self._plain = False  # whether batches are the library's loader's
        self._next = (0, 0)  # (epoch, sample) of the next batch
        self._continues = False  # whether the next loop begins there, not at the beginning of an epoch
        self._marks = {"seed": seed, "shuffle": not _is_stream(source) if shuffle is None else shuffle}
        self._batch = batch
        order = (True if shuffle is None else shuffle, seed, drop_last, workers, rank, ranks)
        if _is_stream(source):
            _expect(not shuffle, "shuffle=False for an iterable, whose order is its own, got True")
            self.dataset: Any = source
            self._base: Any = None
            make = _pipeline._Samples(transform, collate_fn)
            self._made = lambda epoch, sample: _of_stream(source, sample, batch, drop_last, rank, ranks, make, workers, processes)
            return
        by_python = processes or transform is not None or collate_fn is not None
        given = source
        if _is_named(source) or (by_python and _is_columns(source)):
            source = _pipeline._Columns(source)
        if by_python or _has_dicts(source):
            _expect(
                _is_indexed(source),
                "an object with __len__ and __getitem__, arrays or an iterable for processes, transform and collate_fn, got "
                f"{type(source).__name__}: an object whose __getitem__ asks data.dataset(name)[i] is one",
            )
            self.dataset = source
            # Which samples a batch has is what a loader over their numbers says: the same as without processes.
            self._base = _starling.LoaderBase(_starling._columns((_np.arange(len(source)),)), batch, *order)
            by_column = source is not given and not by_python
            rows: Any = _pipeline._NamedRows(given) if by_column else _pipeline._Rows(source, transform, collate_fn)
            self._made = lambda epoch, sample: _pipeline.counted(self._numbers(epoch, sample), rows, workers, processes)
        else:
            self.dataset = dataset(source, split, **options)
            self._base = _starling.LoaderBase(self.dataset, batch, *order)
            self._made = self._taken
            self._plain = True
        _running.add(self._base)

    def _taken(self, epoch: int, sample: int) -> Iterator[tuple[Any, int]]:
        """(batch of the library's loader, its samples over all ranks) from a position to the end of the epoch."""
        self._base.seek(epoch, sample)
        while (made := self._base.next()) is not None:
            after: int = self._base.position[1]
            yield made, after - sample
            sample = after

    def _numbers(self, epoch: int, sample: int) -> Iterator[tuple[Any, int]]:
        return ((numbers.numpy(), total) for numbers, total in self._taken(epoch, sample))

    def __iter__(self) -> Iterator[Any]:
        epoch, sample = self._position
        if sample > 0 and not self._continues:  # where an earlier loop was left before its end
            epoch, sample = epoch + 1, 0
        self._continues = False
        for batch, total in self._made(epoch, sample):
            sample += total
            self._next = (epoch, sample)
            if batch is not None:
                yield batch if self._own_batches or self._plain else _pipeline.tensors(batch)
        self._next = (epoch + 1, 0)

    def _for_trainer(self, epoch: int, sample: int) -> Iterator[tuple[Any, int]]:
        """(fields of a batch, its samples over all ranks): batches that Python makes, for a trainer."""
        for batch, total in self._made(epoch, sample):
            if batch is None:
                raise ValueError(f"[data] expected batches with a sample for each rank, got one of {total}")
            yield _pipeline.fields_of(batch), total

    @property
    def _position(self) -> tuple[int, int]:
        """(epoch, sample) of the next batch; a trainer may have taken some of the library's loader."""
        return self._base.position if self._plain else self._next

    @property
    def epoch(self) -> int:
        """Number of the epoch that the next batch belongs to, from 0."""
        return self._position[0]

    def state_dict(self) -> dict[str, Any]:
        """The position of the next batch: numbers alone, for load_state_dict() of such a loader in another process."""
        epoch, sample = self._position
        return {"epoch": epoch, "sample": sample, **self._marks}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The next loop begins where the state was taken, in the midst of an epoch too, and goes on to the end of it."""
        for name, own in self._marks.items():
            _expect(state.get(name) == own, f"the state of a loader with {name}={own}, got {name}={state.get(name)}")
        self._next, self._continues = (int(state["epoch"]), int(state["sample"])), True
        if self._plain:
            self._base.seek(*self._next)

    def __repr__(self) -> str:
        samples = len(self.dataset) if hasattr(self.dataset, "__len__") else "?"
        return f"Loader({samples} samples, batch={self._batch}, shuffle={self._marks['shuffle']}): epoch {self._position[0]}, sample {self._position[1]}"

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("[data] expected a loader's state, state_dict() and load_state_dict(), got a copy or pickle of itself, which has threads")

    def __len__(self) -> int:
        if self._base is None:
            raise TypeError("[data] expected a source of known length, got an iterable")
        return int(self._base.batches)


_SPLITS = ("train", "test", "valid")
_OURS = {"batch_size": "batch", "num_workers": "workers", "sampler": "shuffle", "generator": "seed"}


def _ours(options: dict[str, Any]) -> str:
    said = [f"{name} is {_OURS[name]} here" for name in options if name in _OURS]
    return f" ({', '.join(said)})" if said else ""


def _expect_words(source: Any, split: str, options: dict[str, Any]) -> None:
    if _ours(options):
        raise TypeError(f"[data] expected the words of a Loader, got {', '.join(options)}{_ours(options)}")
    if split != "train" and (_is_named(source) or not isinstance(source, (str, dict))):
        raise ValueError(f"[data] expected split={split!r} beside a source by its name only, got {type(source).__name__}: give its part itself")


def _expect_ints(**numbers: Any) -> None:
    for name, number in numbers.items():
        if not hasattr(number, "__index__") or isinstance(number, bool):
            raise TypeError(f"[data] expected an int for {name}, got {number!r}")


def _is_named(source: Any) -> bool:
    """Arrays by name, not the options of a source."""
    return isinstance(source, dict) and bool(source) and all(hasattr(column, "shape") for column in source.values())


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
    source: Any, sample: int, batch: int, drop_last: bool, rank: int, ranks: int, make: Any, workers: int, processes: bool
) -> Iterator[tuple[Any, int]]:
    samples = _itertools.islice(iter(source), sample, None)
    any_batch = sample > 0
    for made in _pipeline.counted(_pipeline.grouped(samples, batch, drop_last, rank, ranks), make, workers, processes):
        any_batch = True
        yield made
    # A generator that an earlier epoch has used up would train on nothing from then on.
    _expect(any_batch, f"an iterable with samples, which can be read again, got none from {type(source).__name__}")
