"""Training: jobs as `starling train` runs them, and networks of one's own."""

from __future__ import annotations

import json as _json
import os
from typing import Any, Iterable

from . import _starling
from ._starling import Run as Run  # noqa: F401
from .data import dataset as _dataset

objectives = _starling._objectives


def run(job: str | os.PathLike[str] | dict[str, Any], *, set: Iterable[str] = (), quiet: bool = False) -> dict[str, Any]:
    """Runs a job, a file or the same as a dict, and returns its summary: run("job.yaml", set=["train.epochs=3"])."""
    text = _json.dumps(job) if isinstance(job, dict) else os.fspath(job)
    summary: dict[str, Any] = _starling._run_job(text, isinstance(job, dict), list(set), quiet)
    return summary


class Trainer:
    """Trains a network with compiled steps, an evaluation after each epoch, and callbacks beside it.

    A callback is any object with some of the methods begin, step, evaluated, epoch and end, each called with the Run.
    With a folder the state is saved there after each epoch, every save_every steps, and when the run ends, also by
    Ctrl-C; resume=True goes on from the newest of these states. schedule: as in job files, "cosine" or
    {"name": "step", "every": 3}. strategy: one of starling.dist, on every rank.
    """

    def __init__(
        self,
        net: Any,
        optimizer: Any,
        objective: str = "classify",
        *,
        epochs: int = 1,
        steps: int = 0,
        batch: int = 64,
        seed: int = 1,
        clip_norm: float = 0,
        schedule: str | dict[str, Any] = "",
        strategy: Any = None,
        folder: str | os.PathLike[str] = "",
        save_every: int = 0,
        resume: bool = False,
        callbacks: Iterable[Any] = (),
        quiet: bool = False,
    ):
        options = {
            "epochs": epochs,
            "steps": steps,
            "batch": batch,
            "seed": seed,
            "clip_norm": float(clip_norm),
            "schedule": _json.dumps({"name": schedule} if isinstance(schedule, str) else schedule) if schedule else "",
            "strategy": strategy,
            "folder": os.fspath(folder),
            "save_every": save_every,
            "resume": resume,
            "quiet": quiet,
        }
        base = getattr(optimizer, "base", optimizer)
        self._base = _starling.TrainerBase(net, base, objective, list(callbacks), options)

    def fit(self, train: Any, test: Any = None) -> dict[str, Any]:
        """Trains and returns the summary. Data: the name of a source, arrays, or an object with __len__ and __getitem__."""
        if isinstance(train, (str, dict)) and test is None:
            from .data import read

            splits = read(train)
            summary: dict[str, Any] = self._base.fit(splits.train, splits.test)
        else:
            summary = self._base.fit(_dataset(train), None if test is None else _dataset(test))
        return summary

    def evaluate(self, data: Any) -> dict[str, Any]:
        """Metrics of the network on data."""
        return self._base.evaluate(_dataset(data, "test") if isinstance(data, (str, dict)) else _dataset(data))

    def predict(self, *fields: Any) -> Any:
        """The prediction for one batch."""
        return self._base.predict(fields)
