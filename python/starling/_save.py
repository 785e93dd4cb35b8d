"""Tensors and states in files: data only, in the format safetensors, which other frameworks read too; networks as saved models."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any, Callable, Iterator, Mapping, Sequence

from . import _starling
from ._copies import _modes, _put_modes_back
from ._starling import Tensor


def save(tensors: Mapping[str, Tensor], path: str | os.PathLike[str]) -> None:
    """Writes tensors by name, such as a module's state_dict(), to a file that is complete or not there at all."""
    if not isinstance(tensors, Mapping) or not all(isinstance(name, str) for name in tensors):
        raise TypeError(f"[save] expected a dict of tensors by name, got {type(tensors).__name__}")
    for name, value in tensors.items():
        if isinstance(value, (Mapping, str, int, float, bool)) or value is None:
            raise TypeError(
                f"[save] expected tensors by name, got {type(value).__name__} at {name!r}: train.Checkpoints keeps networks, optimizers and numbers together"
            )
    _starling._save_tensors(os.fspath(path), dict(tensors))


def load(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Reads tensors by name."""
    return _starling._load_tensors(os.fspath(path))


def save_model(
    net: Callable[..., Any],
    folder: str | os.PathLike[str],
    *samples: Any,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    task: str = "",
    class_names: Sequence[str] = (),
    about: Mapping[str, Any] | None = None,
) -> None:
    """Writes a network in evaluation mode, or a function of tensors, as a saved model: a folder that SavedModel, `starling predict` and
    programs in other languages run, without any Python.

    samples: a batch for each input, [n, …], of which dtypes and shapes are taken. The model takes batches of any size; results have the
    batch as their first axis. What the code does is traced with batches of a few sizes, so that it must not depend on values. An
    existing model is replaced, once the new one is complete.
    """
    if not samples:
        raise TypeError("[save_model] expected a batch for each input of the network, got none")
    batches = [_starling.asarray(sample) for sample in samples]
    if any(batch.ndim == 0 for batch in batches):
        raise ValueError("[save_model] expected batches with samples along their first axis, got a scalar")
    names = list(inputs) or ["input", *(f"input_{i}" for i in range(1, len(batches)))]
    if len(names) != len(batches):
        raise ValueError(f"[save_model] expected a name for each of {len(batches)} inputs, got {len(names)}")
    fields = [(name, batch.dtype, batch.shape[1:]) for name, batch in zip(names, batches)]
    told = {"task": task, "class_names": list(class_names), "about": json.dumps(dict(about or {}))}
    with _evaluating(net):
        _starling._save_model(os.fspath(folder), net, fields, list(outputs), told)


@contextlib.contextmanager
def _evaluating(net: Any) -> Iterator[None]:
    """Evaluation mode of all parts, and afterwards the mode that each had."""
    if not isinstance(net, _starling.ModuleBase):
        yield
        return
    modes = _modes(net)
    net.eval()
    try:
        yield
    finally:
        _put_modes_back(net, modes)
