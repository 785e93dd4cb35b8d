"""Ranks: joining a world, collectives, strategies of compiled functions."""

from __future__ import annotations

import atexit as _atexit
import json as _json
import sys as _sys
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable

from . import _starling
from ._kinds import describe as _describe
from ._starling import Strategy as Strategy, all_gather as all_gather, all_reduce as all_reduce, all_to_all as all_to_all, broadcast as broadcast, reduce_scatter as reduce_scatter  # noqa: F401


if TYPE_CHECKING:
    from ._typed_dist import *  # noqa: F403


def init(backend: str = "") -> None:
    """Joins the world that `starling launch`, mpirun or srun has started this process in; alone it is a world of one."""
    if not _starling._dist_joined():
        _starling._dist_init(backend)
        _atexit.register(_starling._dist_leave)
        _report_exceptions()


def _report_exceptions() -> None:
    """Tells the launcher of an exception that ends this rank, before others fail because of it."""
    shown = _sys.excepthook

    def report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not issubclass(kind, KeyboardInterrupt):
            _starling._dist_failed(f"{kind.__name__}: {error}")
        shown(kind, error, trace)

    _sys.excepthook = report


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


def data_parallel(workers: int = 2, *, deterministic: bool = False, shards: int = 12) -> Strategy:
    """The same with threads of this process: the function is called once, with the whole batch."""
    return _starling._data_parallel(workers, deterministic, shards)


def _maker(kind: str, doc: str, schema: dict[str, Any]) -> Callable[..., Strategy]:
    def strategy(**options: Any) -> Strategy:
        init()
        return _starling._make_strategy(kind, _json.dumps(options))

    strategy.__name__ = strategy.__qualname__ = kind
    strategy.__doc__ = _describe(doc, schema)
    return strategy


for _name, (_doc, _schema, _) in _starling._strategy_kinds().items():
    globals()[_name] = _maker(_name, _doc, _schema)
