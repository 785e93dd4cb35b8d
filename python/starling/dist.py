"""Ranks: joining a world, collectives, strategies of compiled functions."""

from __future__ import annotations

import atexit as _atexit
import sys as _sys

from . import _starling
from ._starling import Strategy, all_gather, all_reduce, all_to_all, broadcast, reduce_scatter  # noqa: F401


def init(backend: str = "") -> None:
    """Joins the world that `starling launch`, mpirun or srun has started this process in; alone it is a world of one."""
    if not _starling._dist_joined():
        _starling._dist_init(backend)
        _atexit.register(_starling._dist_leave)
        _report_exceptions()


def _report_exceptions() -> None:
    """Tells the launcher of an exception that ends this rank, before others fail because of it."""
    shown = _sys.excepthook

    def report(kind, error, trace):
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


def allreduce(*, deterministic: bool = False, shards: int = 12) -> Strategy:
    """Synchronous data parallelism: every rank calls the compiled function with its own rows of the batch."""
    init()
    return _starling._allreduce(deterministic, shards)


def data_parallel(workers: int = 2, *, deterministic: bool = False, shards: int = 12) -> Strategy:
    """The same with threads of this process: the function is called once, with the whole batch."""
    return _starling._data_parallel(workers, deterministic, shards)
