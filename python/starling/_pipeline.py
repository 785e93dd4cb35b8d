"""Batches made ahead of time by Python code: samples of an iterable, or of a data set in processes of their own.

One thread reads what batches are to be made of, workers make them, the caller takes them in order.
"""

from __future__ import annotations

import collections
import multiprocessing
import pickle
import queue
import signal
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Iterable, Iterator

import numpy as np

from . import _starling

_END = object()
_POLL_S = 0.1  # how soon a reader notices that nobody takes its batches any more
_ENDED_S = 5.0  # how long what is told to end is waited for


def collate(samples: list[Any]) -> Any:
    """Fields of samples along a new first axis, as NumPy arrays: new memory, which tensors then share. Of dicts a dict."""
    first = samples[0]
    if isinstance(first, dict):
        return _collated_dicts(samples)
    rows = [tuple(sample) if isinstance(sample, (tuple, list)) else (sample,) for sample in samples]
    for place, row in enumerate(rows):
        if len(row) != len(rows[0]):
            _expect_values(row, place)
            raise ValueError(f"[data] expected samples with {len(rows[0])} fields each, got {len(row)} in sample {place} of the batch")
    return [_stacked(list(column), i) for i, column in enumerate(zip(*rows))]


def _collated_dicts(samples: list[Any]) -> dict[Any, Any]:
    keys = list(samples[0])
    for sample in samples:
        if not isinstance(sample, dict) or set(sample) != set(keys):
            got = sorted(map(str, sample)) if isinstance(sample, dict) else type(sample).__name__
            raise ValueError(f"[data] expected samples with the keys {sorted(map(str, keys))}, as the batch begins, got {got}")
    return {key: _stacked([sample[key] for sample in samples], key) for key in keys}


# Numbers of Python become what starling.tensor makes of them.
_NUMBERS = {float: np.float32, int: np.int64, bool: np.bool_}


def _expect_values(fields: Iterable[Any], place: int) -> None:
    for field in fields:
        if field is None or isinstance(field, (str, bytes)):
            raise TypeError(f"[data] expected numbers and arrays as samples, got {field!r} in sample {place} of the batch: a collate_fn may take it")


def _stacked(column: list[Any], number: Any) -> Any:
    """One field of all samples: numbers of one kind and arrays of one type at once, whatever else one by one."""
    kind = type(column[0])
    if kind in _NUMBERS and all(type(value) is kind for value in column):
        return np.array(column, _NUMBERS[kind])
    if kind is not np.ndarray or any(type(value) is not np.ndarray for value in column):
        for place, value in enumerate(column):
            _expect_values((value,), place)
        column = [np.asarray(value, _plain_dtype(value)) for value in column]
    shape, dtype = column[0].shape, column[0].dtype
    for value in column:
        if value.shape != shape or (value.dtype is not dtype and value.dtype != dtype):
            raise ValueError(
                f"[data] expected {dtype}{list(shape)} as field {number} of every sample, as the batch begins, "
                f"got {value.dtype}{list(value.shape)}"
            )
    return np.concatenate(column).reshape(len(column), *shape) if shape else np.array(column, dtype)


def _plain_dtype(field: Any) -> Any:
    return np.float32 if isinstance(field, float) and not hasattr(field, "dtype") else None


class _Samples:
    """Makes a batch of raw samples: the transform of each, then their fields stacked. Goes to other processes by fork."""

    def __init__(self, transform: Callable[[Any], Any] | None, make: Callable[[list[Any]], Any] | None = None):
        self._transform = transform
        self._make = make or collate

    def __call__(self, samples: list[Any]) -> Any:
        return self._make([self._transform(s) for s in samples] if self._transform else samples)


class _Rows:
    """Makes a batch of a data set's samples by their numbers."""

    def __init__(self, data: Any, transform: Callable[[Any], Any] | None, make: Callable[[list[Any]], Any] | None = None):
        self._data = data
        self._make = _Samples(transform, make)

    def __call__(self, rows: Any) -> Any:
        return self._make([self._row(int(row)) for row in rows])

    def _row(self, row: int) -> Any:
        try:
            return self._data[row]
        except Exception as error:
            _note(error, f"[data] sample {row} was asked for")
            raise


class _Columns:
    """Samples of arrays of equal length, in a tuple or by name."""

    def __init__(self, columns: Any):
        self._columns = columns
        sizes = {len(column) for column in (columns.values() if isinstance(columns, dict) else columns)}
        if len(sizes) != 1:
            raise ValueError(f"[data] expected arrays with as many samples each, got {sorted(sizes)}")
        (self._size,) = sizes

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, i: Any) -> Any:
        if isinstance(self._columns, dict):
            return {name: column[i] for name, column in self._columns.items()}
        return tuple(column[i] for column in self._columns)


class _NamedRows:
    """Makes a batch of arrays by name."""

    def __init__(self, columns: dict[str, Any]):
        self._columns = {name: np.asarray(column) for name, column in columns.items()}

    def __call__(self, rows: Any) -> Any:
        return {name: column[rows] for name, column in self._columns.items()}


def _note(error: BaseException, text: str) -> None:
    """A line below the error's own words; before Python 3.11 nothing shows it."""
    if hasattr(error, "add_note"):
        error.add_note(text)


class _InWorker(Exception):
    """Where an error of a worker process comes from: its traceback there, as the cause of the error here."""

    def __init__(self, trace: str):
        super().__init__(trace)
        self._trace = trace

    def __str__(self) -> str:
        return f"in a worker process\n{self._trace}"


class _Threads:
    """Workers that are threads of this process."""

    def __init__(self, make: Any, workers: int):
        self._make = make
        self._pool = ThreadPoolExecutor(workers, "starling-data")

    def submit(self, task: Any) -> Callable[[], Any]:
        return self._pool.submit(self._make, task).result

    def stop(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def close(self) -> None:
        pass


class _Processes:
    """Workers that are processes, forked by the thread that makes them, so that data sets and transforms need not be pickled. They
    take tasks in turns, and answer each on a pipe of its own: the answers come in order."""

    def __init__(self, make: Any, workers: int):
        context = multiprocessing.get_context("fork")
        self._pipes: list[Any] = []
        self._workers: list[Any] = []
        for _ in range(workers):
            ours, theirs = context.Pipe()
            worker = context.Process(target=_serve, args=(make, theirs, [*self._pipes, ours]), daemon=True)
            worker.start()
            theirs.close()
            self._pipes.append(ours)
            self._workers.append(worker)
        self._turn = 0

    def submit(self, task: Any) -> Callable[[], Any]:
        at = self._turn
        self._turn = (at + 1) % len(self._pipes)
        self._pipes[at].send(task)
        return lambda: self._answer(at)

    def _answer(self, at: int) -> Any:
        try:
            made, error, trace = self._pipes[at].recv()
        except (EOFError, OSError):
            self._workers[at].join(_ENDED_S)
            code = self._workers[at].exitcode
            raise _starling.Error(f"[data] expected worker process {at} to make its batches, got its end with code {code}") from None
        if error is not None:
            raise error from _InWorker(trace)
        return made

    def stop(self) -> None:
        """Ends the processes; whoever waits to send them something is told so."""
        for worker in self._workers:
            worker.terminate()
        for worker in self._workers:
            worker.join(_ENDED_S)

    def close(self) -> None:
        for pipe in self._pipes:
            pipe.close()


def _serve(make: Any, pipe: Any, others: list[Any]) -> None:
    """A worker process: answers (batch, None, "") or (None, error, traceback) to each task, until its pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that takes the batches
    for other in others:
        other.close()  # else these pipes would stay open as long as this process
    try:
        while True:
            task = pipe.recv()
            try:
                answer: Any = (make(task), None, "")
            except Exception as error:  # noqa: BLE001 - raised where batches are taken
                answer = (None, _portable(error), traceback.format_exc())
            pipe.send(answer)
    except (EOFError, OSError):
        pass


def _portable(error: Exception) -> Exception:
    """The error, or where it cannot be pickled, one that says the same."""
    try:
        pickle.loads(pickle.dumps(error))
        return error
    except Exception:  # noqa: BLE001 - whatever pickling raises
        return _starling.Error(f"[data] {type(error).__name__}: {error}")


def _put(place: queue.Queue[Any], item: Any, stop: threading.Event) -> bool:
    while not stop.is_set():
        try:
            place.put(item, timeout=_POLL_S)
            return True
        except queue.Full:
            continue
    return False


def _raised(error: BaseException) -> Any:
    def answer() -> Any:
        raise error

    return answer


def _read(tasks: Iterator[Any], workers: Any, places: Any, place: queue.Queue[Any], stop: threading.Event) -> None:
    last: Any = _END
    try:
        for task in tasks:
            # Asked for before the task is handed out, so that no worker is given more than can be taken.
            while not places.acquire(timeout=_POLL_S):
                if stop.is_set():
                    return
            if stop.is_set() or not _put(place, workers.submit(task), stop):
                return
    except BaseException as error:  # noqa: BLE001 - raised where batches are taken
        last = _raised(error)
    _put(place, last, stop)


def batches(tasks: Iterator[Any], make: Any, workers: int, processes: bool) -> Iterator[list[Any]]:
    """make(task) for all tasks in order, computed ahead of time; an error is raised in its place."""
    made = (_Processes if processes else _Threads)(make, workers)
    place: queue.Queue[Any] = queue.Queue()
    places = threading.Semaphore(workers + 1)
    stop = threading.Event()
    reader = threading.Thread(target=_read, args=(tasks, made, places, place, stop), daemon=True, name="starling-data-reader")
    reader.start()
    patience = _ENDED_S
    try:
        while (answer := place.get()) is not _END:
            batch = answer()
            places.release()
            yield batch
    except KeyboardInterrupt:
        patience = _POLL_S
        raise
    finally:
        stop.set()
        made.stop()
        reader.join(patience)  # it may be inside of the source, which nobody can interrupt
        made.close()


def grouped(source: Iterator[Any], batch: int, drop_last: bool, rank: int, ranks: int) -> Iterator[tuple[list[Any], int]]:
    """(this rank's part of a batch's samples, samples of the batch)."""
    samples: list[Any] = []
    for sample in source:
        samples.append(sample)
        if len(samples) == batch:
            yield _part(samples, rank, ranks)
            samples = []
    if samples and not drop_last:
        yield _part(samples, rank, ranks)


def _part(samples: list[Any], rank: int, ranks: int) -> tuple[list[Any], int]:
    total = len(samples)
    return samples[total * rank // ranks : total * (rank + 1) // ranks], total


def counted(parts: Iterator[tuple[Any, int]], make: Any, workers: int, processes: bool) -> Iterator[tuple[Any, int]]:
    """(make(part), total) of (part, total), computed ahead of time; a part without samples makes no batch: (None, total)."""
    totals: collections.deque[tuple[bool, int]] = collections.deque()  # of what the workers have, in order

    def tasks() -> Iterator[Any]:
        for part, total in parts:
            totals.append((len(part) > 0, total))
            if len(part) > 0:
                yield part

    def left_out() -> Iterator[tuple[Any, int]]:
        while totals and not totals[0][0]:
            yield None, totals.popleft()[1]

    for made in batches(tasks(), make, workers, processes):
        yield from left_out()
        yield made, totals.popleft()[1]
    yield from left_out()


def fields_of(batch: Any) -> tuple[Any, ...]:
    """The fields of a batch in order: those of a dict as it has them."""
    if isinstance(batch, dict):
        return tuple(batch.values())
    return tuple(batch) if isinstance(batch, (tuple, list)) else (batch,)


def tensors(fields: Any) -> Any:
    """A batch as loaders hand it out: a tensor, a tuple of them, or a dict."""
    if isinstance(fields, dict):
        return {key: _starling.from_numpy(field) for key, field in fields.items()}
    made = tuple(_starling.from_numpy(field) for field in fields)
    return made[0] if len(made) == 1 else made
