"""Checkpoints of a loop of one's own: all that it takes to go on to the same bits."""

from __future__ import annotations

import json
import os
import warnings
from typing import Any

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
    """

    def __init__(self, folder: str | os.PathLike[str], *, keep: int = 3, **parts: Any):
        for name, part in parts.items():
            if not (hasattr(part, "state_dict") and hasattr(part, "load_state_dict")):
                raise TypeError(f"[checkpoints] expected state_dict() and load_state_dict() of {name}, got {type(part).__name__}")
            if "/" in name:
                raise ValueError(f"[checkpoints] expected names without '/', got {name!r}")
        self._folder = _starling.CheckpointFolder(os.fspath(folder), keep)
        self._parts = parts
        self.more: Any = None

    def save(self, step: int, more: Any = None) -> str:
        """Writes the state after so many steps; returns the folder of the checkpoint."""
        tensors: dict[str, Tensor] = {}
        rest = {name: _split(part.state_dict(), name, tensors) for name, part in self._parts.items()}
        told = json.dumps({"parts": rest, "random": _starling.random_state(), "more": more})
        return self._folder.save(step, tensors, told)

    def load(self, step: int | None = None) -> int | None:
        """Puts every part where it was after that step, or at the newest intact checkpoint; returns its step, or None without one.

        A checkpoint that was damaged is passed over with a warning.
        """
        loaded = self._folder.load(step)
        if loaded is None:
            return None
        found, tensors, told, skipped, differences = loaded
        for text in [*(f"passed over a damaged checkpoint: {one}" for one in skipped), *differences]:
            warnings.warn(f"[checkpoints] {text}", stacklevel=2)
        state = json.loads(told)
        if set(state["parts"]) != set(self._parts):
            raise ValueError(f"[checkpoints] expected the parts {sorted(self._parts)}, got a checkpoint of {sorted(state['parts'])}")
        for name, part in self._parts.items():
            part.load_state_dict(_joined(state["parts"][name], name, tensors))
        _starling.set_random_state(state["random"])
        self.more = state["more"]
        return int(found)

    @property
    def steps(self) -> list[int]:
        """Steps of which there is a checkpoint, in their order."""
        return self._folder.steps()


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
