"""Training: jobs as `starling train` runs them, and networks of one's own."""

from __future__ import annotations

import html
import json as _json
import os
from typing import Any, Callable, Iterable

import numpy as np

from . import _html, _pipeline, _progress, _starling
from ._checkpoints import Checkpoints as Checkpoints
from ._runs import Summary as Summary
from ._starling import Run as Run  # noqa: F401
from .data import Loader as _Loader, _is_named, _is_stream, dataset as _dataset

objectives = _starling._objectives


def _read(job: Any, overrides: Iterable[str]) -> Any:
    text = _json.dumps(job) if isinstance(job, dict) else os.fspath(job)
    return _starling._read_job(text, isinstance(job, dict), list(overrides))


def run(
    job: str | os.PathLike[str] | dict[str, Any],
    *,
    set: Iterable[str] = (),
    callbacks: Iterable[Any] = (),
    quiet: bool = False,
) -> Summary:
    """Runs a job, a file or the same as a dict, and returns its summary: run("job.yaml", set=["train.epochs=3"])."""
    callbacks = list(callbacks)
    _expect_callbacks(callbacks)
    return Summary(_starling._run_job(_read(job, set), _progress.place(quiet), None, callbacks)[0])


class Trainer:
    """Trains a network with compiled steps, an evaluation after each epoch, and callbacks beside it.

    Trainer(net, optimizer, epochs=3).fit(data), or Trainer(net, "job.yaml").fit(): then data, optimizer, schedule, checkpoints and
    ranks are the job's, whose model gives way to the network; set=["train.epochs=3"] changes keys of it. Workers that are threads and do
    more than allreduce, and parameter servers, need a network each: Trainer(make_net, "job.yaml"), where make_net() makes one; `net` is
    the trained one afterwards.

    A callback is any object with some of the methods begin, step, evaluated, epoch and end, each called with the Run.
    objective: a name of job files, or a function (net, *fields) that returns loss, (loss, prediction) or (loss, prediction,
    target), the latter for metrics.
    With a folder the state is saved there after each epoch, every save_every steps, and when the run ends, also by
    Ctrl-C; resume=True goes on from the newest of these states. schedule: as in job files, "cosine" or
    {"name": "step", "every": 3}. strategy: one of starling.dist, on every rank.
    precision: f32, bf16 or f16, what products and convolutions compute in. clip_norm, clip_value: most that all gradients together, or
    each of them, may be; 0: no limit. non_finite: auto, stop, skip, rollback or ignore, what becomes of values that are no numbers.
    evaluate_every: steps between evaluations beside those after each epoch. threads: of this rank, 0: all cores.
    """

    def __init__(
        self,
        net: Any,
        optimizer: Any,
        objective: str | Callable[..., Any] = "classify",
        *,
        epochs: int = 1,
        steps: int = 0,
        batch: int = 64,
        seed: int = 1,
        accumulate: int = 1,
        clip_norm: float = 0,
        clip_value: float = 0,
        precision: str = "f32",
        non_finite: str = "auto",
        evaluate_every: int = 0,
        threads: int = 0,
        metrics: Iterable[str] = (),
        schedule: str | dict[str, Any] = "",
        strategy: Any = None,
        folder: str | os.PathLike[str] = "",
        save_every: int = 0,
        resume: bool = False,
        set: Iterable[str] = (),
        callbacks: Iterable[Any] = (),
        quiet: bool = False,
    ):
        options = {
            "epochs": epochs,
            "steps": steps,
            "batch": batch,
            "seed": seed,
            "accumulate": accumulate,
            "clip_norm": float(clip_norm),
            "clip_value": float(clip_value),
            "precision": precision,
            "non_finite": non_finite,
            "evaluate_every": evaluate_every,
            "threads": threads,
            "metrics": list(metrics),
            "schedule": _json.dumps({"name": schedule} if isinstance(schedule, str) else schedule) if schedule else "",
            "strategy": strategy,
            "folder": os.fspath(folder),
            "save_every": save_every,
            "resume": resume,
            "progress": _progress.place(quiet),
        }
        callbacks = list(callbacks)
        _expect_objective(objective)
        _expect_callbacks(callbacks)
        _expect_numbers(options)
        self._job: Any = None
        self.net = self._made = net
        self._told = {key: options[key] for key in ("epochs", "steps", "batch", "precision", "folder") if options[key]}
        if isinstance(optimizer, str) and not os.path.exists(optimizer) and not optimizer.endswith((".yaml", ".yml", ".json")):
            raise TypeError(f"[trainer] expected an optimizer of starling.optim, or a job as a file or dict, got {optimizer!r}")
        if isinstance(optimizer, (str, os.PathLike, dict)):
            # Where a dict names no model, an identity stands for the network that takes its place.
            job = {"model": {"layers": ["identity"]}, **optimizer} if isinstance(optimizer, dict) else optimizer
            self._job = _read(job, set)
            self._callbacks, self._quiet = callbacks, quiet
            _expect_none_given(options, objective)
            return
        if not isinstance(net, _starling.ModuleBase):
            raise TypeError(f"[trainer] expected a network, or beside a job a function that makes one, got {type(net).__name__}")
        if list(set):
            raise TypeError("[trainer] expected set= beside a job only, got an optimizer")
        _expect_folder(options)
        if non_finite == "rollback" and not options["folder"]:
            raise ValueError(
                "[trainer] expected a folder with non_finite='rollback', which goes back to a checkpoint of it, got none: "
                "give folder='runs/mine', or non_finite='skip', which leaves such steps out"
            )
        self._batch = batch
        base = getattr(optimizer, "base", optimizer)
        if not isinstance(base, _starling.OptimizerBase):
            raise TypeError(f"[trainer] expected an optimizer of starling.optim, or a job as a file or dict, got {optimizer!r}")
        if _is_of_others(net, base):
            raise ValueError("[trainer] expected an optimizer of this network's parameters, got one of others, by which it would not be trained")
        self._base = _starling.TrainerBase(net, base, objective, callbacks, options)

    def fit(self, train: Any = None, test: Any = None) -> Summary:
        """Trains and returns the summary. Data: the name of a source, arrays, an object with __len__ and __getitem__, a Loader, which keeps
        its batch size and order, or any iterable of samples, which is read in its own order, again for every epoch. Batches of iterables and
        of Loaders with transform, processes or collate_fn are made by Python while steps run. On several ranks every one reads the
        iterable and keeps its rows. Test data of that kind is read once into memory.
        """
        if self._job is not None:
            if train is not None or test is not None:
                raise TypeError("[trainer] expected fit() without data, which the job names")
            summary, self.net = _starling._run_job(self._job, _progress.place(self._quiet), self._made, self._callbacks)
            return Summary(summary)
        if train is None:
            raise TypeError("[trainer] expected data: fit(train), or a job that names it")
        train, test = _in_order(train), _in_order(test)
        if isinstance(train, (str, dict)) and test is None:
            from .data import read

            splits = read(train)
            return Summary(self._base.fit(splits.train, splits.test))
        held_out = None if test is None else _held(test)
        if isinstance(train, _Loader):
            if train._plain:
                return Summary(self._base.fit_loader(train._base, held_out))
            return Summary(self._base.fit_batches(train._for_trainer, train._batch, _samples_of(train), False, held_out))
        if _is_stream(train):
            loader = _Loader(train, self._batch)
            return Summary(self._base.fit_batches(loader._for_trainer, self._batch, _samples_of(loader), True, held_out))
        return Summary(self._base.fit(_held(train), held_out))

    def evaluate(self, data: Any) -> dict[str, float]:
        """Metrics of the network on data."""
        data = _in_order(data)
        metrics: dict[str, float] = self._own().evaluate(_dataset(data, "test") if isinstance(data, (str, dict)) else _held(data))
        return metrics

    def predict(self, *fields: Any) -> Any:
        """The prediction for one batch."""
        return self._own().predict(fields)

    def _repr_html_(self) -> str:
        """Shown by notebooks: what is trained, and by what."""
        what = _html.of_module(self.net) if isinstance(self.net, _starling.ModuleBase) else "a network that is not made yet"
        how = "by a job" if self._job is not None else html.escape(", ".join(f"{key}={value!r}" for key, value in self._told.items()))
        return f"<b>Trainer</b>({how})<br>{what}"

    def _own(self) -> Any:
        if self._job is not None:
            raise TypeError("[trainer] expected a Trainer with an optimizer here: a job's run is evaluated by `starling eval`")
        return self._base


_EVENTS = ("begin", "step", "evaluated", "epoch", "end")


def _expect_objective(objective: Any) -> None:
    if not isinstance(objective, str) and not callable(objective):
        raise TypeError(f"[trainer] expected the name of an objective or a function (net, *fields), got {objective!r}")


def _expect_callbacks(callbacks: list[Any]) -> None:
    for callback in callbacks:
        if not any(callable(getattr(callback, event, None)) for event in _EVENTS):
            raise TypeError(f"[trainer] expected callbacks with one of the methods {', '.join(_EVENTS)}, which are called with the Run, got {callback!r}")


def _is_of_others(net: Any, optimizer: Any) -> bool:
    own = set(net.parameters())
    return bool(own) and own.isdisjoint(optimizer.parameters())


def _expect_numbers(options: dict[str, Any]) -> None:
    for name in ("epochs", "steps", "batch", "seed", "accumulate", "evaluate_every", "threads", "save_every"):
        if not isinstance(options[name], int) or isinstance(options[name], bool):
            raise TypeError(f"[trainer] expected an int for {name}, got {options[name]!r}")


def _expect_folder(options: dict[str, Any]) -> None:
    folder = options["folder"]
    if not folder and (options["resume"] or options["save_every"]):
        name = "resume" if options["resume"] else "save_every"
        raise ValueError(f"[trainer] expected a folder beside {name}, where states are kept: Trainer(…, folder='runs/one')")
    if folder and os.path.exists(folder) and not os.path.isdir(folder):
        raise ValueError(f"[trainer] expected a folder to keep states in, got the file {folder!r}")


def _in_order(data: Any) -> Any:
    """Arrays by name as a tuple; anything else as it is."""
    return tuple(data.values()) if _is_named(data) else data


def _held(data: Any) -> Any:
    """A data set: of an iterable, or of a Loader whose batches Python makes, of all its samples in memory."""
    if isinstance(data, _Loader):
        return _dataset(data.dataset) if data._plain else _starling._columns(_joined(data))
    return _starling._columns(tuple(_pipeline.collate(list(data)))) if _is_stream(data) else _dataset(data)


def _joined(loader: _Loader) -> tuple[Any, ...]:
    rows = [[np.asarray(field) for field in fields] for fields, _ in loader._for_trainer(0, 0)]
    return tuple(np.concatenate([row[i] for row in rows]) for i in range(len(rows[0])))


def _samples_of(loader: _Loader) -> int:
    """Samples of an epoch over all ranks; -1: not known before it was read."""
    if loader._base is not None:
        return int(loader._base.samples)
    return len(loader.dataset) if hasattr(loader.dataset, "__len__") else -1


def _expect_none_given(options: dict[str, Any], objective: Any) -> None:
    defaults = {"epochs": 1, "batch": 64, "seed": 1, "accumulate": 1, "precision": "f32", "non_finite": "auto", "progress": options["progress"]}
    given = [name for name, value in options.items() if value and value != defaults.get(name)]
    if objective != "classify":
        given.append("objective")
    if given:
        raise TypeError(f"[trainer] expected {', '.join(given)} in the job, or as set=[\"train.epochs=3\"], got them beside it")
