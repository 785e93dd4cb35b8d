"""Ranks: joining a world, collectives, strategies of compiled functions."""

from __future__ import annotations

import atexit as _atexit
import json as _json
import sys as _sys
import threading as _threading
from contextlib import contextmanager as _contextmanager
from types import FrameType as _FrameType, TracebackType as _TracebackType
from typing import TYPE_CHECKING, Any, Callable, Iterator, NoReturn

from . import _starling
from ._kinds import describe as _describe, identifier as _identifier
from ._starling import Strategy as Strategy, all_gather as all_gather, all_reduce as all_reduce, all_to_all as all_to_all, broadcast as broadcast, reduce_scatter as reduce_scatter  # noqa: F401


if TYPE_CHECKING:
    from ._typed_dist import *  # noqa: F403


def init(backend: str = "") -> None:
    """Joins the world that `starling launch`, mpirun or srun has started this process in; alone it is a world of one. A thread of
    spawn() has joined its own."""
    if not _starling._dist_joined():
        _starling._dist_init(backend)
        _atexit.register(_starling._dist_leave)
        _report_exceptions()


def _report_exceptions() -> None:
    """Tells the launcher of an exception that ends this rank, before others fail because of it."""
    shown = _sys.excepthook

    def report(kind: type[BaseException], error: BaseException, trace: _TracebackType | None) -> None:
        if not issubclass(kind, KeyboardInterrupt):
            _starling._dist_failed(f"{kind.__name__}: {error}")
        shown(kind, error, trace)

    _sys.excepthook = report
    _report_exits()


def _report_exits() -> None:
    """Tells the launcher, and whoever reads what this rank has written, of a sys.exit() that ends it with an error."""
    leave: Callable[[Any], NoReturn] = _sys.exit
    asked: list[tuple[Any, str, _FrameType, int]] = []

    def exit(status: Any = None, /) -> NoReturn:
        if _threading.current_thread() is _threading.main_thread():
            frame = _sys._getframe(1)
            where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
            while frame.f_back is not None:
                frame = frame.f_back
            asked[:] = [(status, where, frame, frame.f_lasti)]
        leave(status)

    def report() -> None:
        # Where somebody catches SystemExit, the outermost frame goes on beyond the call.
        for status, where, frame, place in asked:
            if status in (None, 0) or frame.f_lasti != place:
                continue
            _starling._dist_failed(f"sys.exit({status!r}) in {where}")
            if isinstance(status, int):  # anything else Python prints itself
                print(f"sys.exit({status}) in {where}", file=_sys.stderr, flush=True)

    _sys.exit = exit
    _atexit.register(report)  # called before the world is left, which was registered earlier


def leave() -> None:
    """Leaves the world; at the end of the program that happens by itself."""
    _starling._dist_leave()


def rank() -> int:
    """This process among those of the world, from 0."""
    return _starling._dist_rank()


def size() -> int:
    """Number of ranks."""
    return _starling._dist_size()


def backend() -> str:
    """How ranks talk: shared, gloo, mpi, …"""
    return _starling._dist_backend()


def spawn(function: Callable[..., Any], ranks: int, *arguments: Any) -> list[Any]:
    """function(*arguments) on so many ranks that are threads of this process; what each returned, by rank.

    Every rank has networks and optimizers of its own and seeds its own random numbers: rank() and size() tell it which it is. An error of one
    ends the others' waits and is raised here; who waits for one that has returned is told so. The GIL is free while programs, kernels and exchanges run.
    """
    if ranks < 1:
        raise ValueError(f"[dist] expected at least one rank, got {ranks}")
    members = _starling._dist_threads(ranks)
    results: list[Any] = [None] * ranks
    failures: list[BaseException] = []

    def run(place: int, rank: Any) -> None:
        rank.enter()
        why = ""
        try:
            results[place] = function(*arguments)
        except BaseException as error:  # noqa: BLE001 - raised where the ranks were started
            failures.append(error)
            why = f"{type(error).__name__}: {error}"
        finally:
            rank.leave(why)

    threads = [_threading.Thread(target=run, args=each, name=f"starling-rank-{each[0]}", daemon=True) for each in enumerate(members)]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException as error:  # Ctrl-C: ranks that were left behind would end with the process, in the midst of a wait
        for member in members:  # one that has left ends nothing
            member.abort(f"{type(error).__name__}: {error}")
        for thread in threads:
            thread.join()
        raise
    if failures:
        raise failures[0]
    return results


def data_parallel(workers: int = 2, *, deterministic: bool = False, shards: int = 12) -> Strategy:
    """The same with threads of this process: the function is called once, with the whole batch."""
    return _starling._data_parallel(workers, deterministic, shards)


class GradientReducer:
    """Averages gradients of eager code over ranks while backward() still runs, for networks whose graph changes from step to step
    and differs from rank to rank:

    reducer = dist.GradientReducer(net.parameters())
    with reducer.step(samples=len(x)):           # of which the loss is the mean on this rank; 0: this rank has none
        loss.backward()
    optimizer.step()

    The result is the mean over the samples of all ranks. A parameter that a rank does not use counts as zeros there; one that no
    rank used has no gradient. All ranks take part in every step; parameters must begin equal on all of them.
    """

    def __init__(self, parameters: Any, *, overlap: bool = True, bucket_bytes: int = 25 << 20, first_bucket_bytes: int = 1 << 20):
        init()
        self._base = _starling.ReducerBase(list(parameters), bucket_bytes, first_bucket_bytes, overlap)

    def begin(self, samples: float) -> None:
        """Before the last backward pass of a step."""
        self._base.begin(samples)

    def finish(self) -> None:
        """Sends what is left, waits, and sets all gradients to the mean."""
        self._base.finish()

    @_contextmanager
    def step(self, samples: float) -> Iterator[None]:
        """begin(), the block with its backward pass, finish(). An error inside breaks the group: the others would wait."""
        self.begin(samples)
        try:
            yield
        except BaseException:
            self._base.give_up()
            raise
        self.finish()

    @property
    def buckets(self) -> int:
        """Number of exchanges in a step."""
        return self._base.buckets

    @property
    def left_early(self) -> int:
        """Exchanges of the last step that began before finish()."""
        return self._base.left_early


def _no_pickle(self: Strategy, protocol: Any) -> Any:
    raise TypeError("[dist] expected a strategy to stay with the ranks that it was made for, got a copy or pickle of it: make another one by its options")


setattr(Strategy, "__reduce_ex__", _no_pickle)


def _maker(kind: str, doc: str, schema: dict[str, Any]) -> Callable[..., Strategy]:
    def strategy(**options: Any) -> Strategy:
        init()
        return _starling._make_strategy(kind, _json.dumps(options))

    strategy.__name__ = strategy.__qualname__ = kind
    strategy.__doc__ = _describe(doc, schema)
    return strategy


for _name, (_doc, _schema, _) in _starling._strategy_kinds().items():
    globals()[_identifier(_name)] = _maker(_name, _doc, _schema)
