"""Checkpoints of a loop of one's own: all that it takes to go on to the same bits."""

from __future__ import annotations

import json
import os
import warnings
from typing import Any, Callable

from . import _starling
from ._starling import Tensor


class Checkpoints:
    """States of a training loop in a folder, written whole or not at all, of which the newest `keep` stay.

    kept = Checkpoints("run", net=net, optimizer=optimizer, schedule=schedule, loader=loader)
    step = kept.load() or 0                      # goes on from the newest one, if there is one
    for epoch in range(loader.epoch, epochs):
        for x, y in loader:
            loss = train_step(x, y); schedule.step(); step += 1
            if step % 100 == 0: kept.save(step)

    The parts are anything with state_dict() and load_state_dict(): modules, optimizers, schedules, Loaders, and objects of one's own
    whose state is tensors, numbers, texts, lists and dicts. The random numbers of this thread are kept beside them. `more` of save()
    is what else shall be kept; it is in `more` after load().

    On several ranks all of them call save() and load() with the same folder. Rank 0 writes what is equal on all of them once, and of
    what differs (random numbers, loaders, statistics) each rank's own, so that as many ranks go on to the same bits; where nothing differs
    any number of ranks may. strategy: the one whose ranks store pieces of weights or optimizer state (zero, layout), or remember what
    a codec left out: pieces are put together, and cut again for any number of ranks.
    """

    def __init__(self, folder: str | os.PathLike[str], *, keep: int = 3, strategy: Any = None, **parts: Any):
        for name, part in parts.items():
            if not (hasattr(part, "state_dict") and hasattr(part, "load_state_dict")):
                raise TypeError(f"[checkpoints] expected state_dict() and load_state_dict() of {name}, got {type(part).__name__}")
            if "/" in name:
                raise ValueError(f"[checkpoints] expected names without '/', got {name!r}")
        self._place = (os.fspath(folder), keep)
        self._folder = _starling.CheckpointFolder(*self._place)
        self._strategy = strategy
        self._group: Any = None  # of several ranks, once they have met
        self._parts = parts
        self.more: Any = None

    def __repr__(self) -> str:
        return f"Checkpoints({self._place[0]!r}, {', '.join(self._parts)}): steps {self.steps}"

    def save(self, step: int, more: Any = None) -> str:
        """Writes the state after so many steps; returns the folder of the checkpoint. Of several ranks every one calls it."""
        group = self._ranks()
        tensors: dict[str, Tensor] = {}
        if group is None:
            return self._folder.save(step, tensors, self._told(tensors, more))
        told, failed = _tried(lambda: self._told(tensors, more))
        path: str = _agreed(failed, lambda: group.save(step, tensors, told or "{}", _why(failed)))
        return path

    def _told(self, tensors: dict[str, Tensor], more: Any) -> str:
        """What is kept as text; tensors go to `tensors`."""
        rest = {name: _split(part.state_dict(), name, tensors) for name, part in self._parts.items()}
        return json.dumps({"parts": rest, "random": _starling.random_state(), "more": more})

    def load(self, step: int | None = None) -> int | None:
        """Puts every part where it was after that step, or at the newest intact checkpoint; returns its step, or None without one.

        A checkpoint that was damaged is passed over with a warning. Of several ranks every one calls it.
        """
        group = self._ranks()
        loaded = self._folder.load(step) if group is None else self._loaded_by(group, step)
        if loaded is None:
            return None
        found, tensors, told, skipped, differences = loaded
        for text in [*(f"passed over a damaged checkpoint: {one}" for one in skipped), *differences]:
            warnings.warn(f"[checkpoints] {text}", stacklevel=2)
        if group is None:
            self._put_back(json.loads(told), tensors)
        else:
            _, failed = _tried(lambda: self._put_back(json.loads(told), tensors))
            _agreed(failed, lambda: group.done(found, _why(failed)))
        return int(found)

    def _loaded_by(self, group: Any, step: int | None) -> Any:
        own: dict[str, Tensor] = {}
        _, failed = _tried(lambda: self._told(own, None) if group.in_pieces else "")
        return _agreed(failed, lambda: group.load(step, own, _why(failed)))

    def _put_back(self, state: Any, tensors: dict[str, Tensor]) -> None:
        if set(state["parts"]) != set(self._parts):
            raise ValueError(f"[checkpoints] expected the parts {sorted(self._parts)}, got a checkpoint of {sorted(state['parts'])}")
        for name, part in self._parts.items():
            part.load_state_dict(_joined(state["parts"][name], name, tensors))
        _starling.set_random_state(state["random"])
        self.more = state["more"]

    def _ranks(self) -> Any:
        """What several ranks save by together; None: this process is alone."""
        if self._group is None and _starling._several_ranks(self._strategy):
            self._group = _starling.RankCheckpoints(*self._place, self._strategy)
        return self._group

    @property
    def steps(self) -> list[int]:
        """Steps of which there is a checkpoint, in their order."""
        return self._folder.steps()


def _tried(ask: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """(the answer, None), or (None, what went wrong): the other ranks, which would wait, are told before it is raised."""
    try:
        return ask(), None
    except Exception as error:  # noqa: BLE001 - raised by _agreed()
        return None, error


def _why(failed: Exception | None) -> str:
    return "" if failed is None else f"{type(failed).__name__}: {failed}"


def _agreed(failed: Exception | None, meet: Callable[[], Any]) -> Any:
    """What the ranks did together, or what went wrong on this one."""
    try:
        return meet()
    except _starling.Error:
        if failed is not None:
            raise failed from None
        raise


_TENSOR = "tensor of the file"  # stands for a tensor in what is kept as text


def _split(state: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    """The state without its tensors, which go to `tensors` by their paths."""
    if isinstance(state, Tensor) or (hasattr(state, "__array__") and hasattr(state, "shape")):
        tensors[path] = state if isinstance(state, Tensor) else _starling.asarray(state)
        return {_TENSOR: True}
    if isinstance(state, dict):
        if not all(isinstance(key, str) for key in state):
            raise TypeError(f"[checkpoints] expected names as keys of {path}, got {sorted(map(repr, state))}")
        return {key: _split(value, f"{path}/{key}", tensors) for key, value in state.items()}
    if isinstance(state, (list, tuple)):
        return [_split(value, f"{path}/{i}", tensors) for i, value in enumerate(state)]
    if state is None or isinstance(state, (bool, int, float, str)):
        return state
    raise TypeError(f"[checkpoints] expected tensors, numbers, texts, lists and dicts in {path}, got {type(state).__name__}")


def _joined(state: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    if isinstance(state, dict):
        if state == {_TENSOR: True}:
            return tensors[path]
        return {key: _joined(value, f"{path}/{key}", tensors) for key, value in state.items()}
    return [_joined(value, f"{path}/{i}", tensors) for i, value in enumerate(state)] if isinstance(state, list) else state
