"""Tensors and states in files: data only, in the format safetensors, which other frameworks read too."""

from __future__ import annotations

import os
from typing import Mapping

from . import _starling
from ._starling import Tensor


def save(tensors: Mapping[str, Tensor], path: str | os.PathLike[str]) -> None:
    """Writes tensors by name, such as a module's state_dict(), to a file that is complete or not there at all."""
    if not isinstance(tensors, Mapping) or not all(isinstance(name, str) for name in tensors):
        raise TypeError(f"[save] expected a dict of tensors by name, got {type(tensors).__name__}")
    _starling._save_tensors(os.fspath(path), dict(tensors))


def load(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Reads tensors by name."""
    return _starling._load_tensors(os.fspath(path))
