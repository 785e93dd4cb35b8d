"""Names that PyTorch, NumPy and JAX have for functions of ours."""

from __future__ import annotations

from typing import Any

from . import _starling
from ._starling import Tensor


def _shape(sizes: tuple[Any, ...]) -> Any:
    return sizes[0] if len(sizes) == 1 else sizes


def rand(*shape: Any, dtype: Any = "f32", device: Any = None) -> Tensor:
    """Numbers in [0, 1): rand(2, 3) or rand((2, 3)). In compiled functions: the same at every call until optimizer.step() or next_step()."""
    made = _starling.uniform(_shape(shape), dtype=dtype)
    return made if device is None else made.to(device)


def randn(*shape: Any, dtype: Any = "f32", device: Any = None) -> Tensor:
    """Normal numbers of mean 0 and deviation 1: randn(2, 3) or randn((2, 3)).

    In compiled functions they are the same at every call until optimizer.step() or next_step() moves them on.
    """
    made = _starling.normal(_shape(shape), dtype=dtype)
    return made if device is None else made.to(device)


def rand_like(x: Tensor) -> Tensor:
    """Numbers in [0, 1), with the shape and dtype of x."""
    return _starling.uniform(x.shape, dtype=x.dtype)


def randn_like(x: Tensor) -> Tensor:
    """Normal numbers of mean 0 and deviation 1, with the shape and dtype of x."""
    return _starling.normal(x.shape, dtype=x.dtype)


def empty_like(x: Tensor) -> Tensor:
    """A tensor of the shape, dtype and device of x whose values do not matter."""
    return _starling.empty(x.shape, x.dtype, x.device)


def chunk(x: Tensor, chunks: int, dim: int = 0) -> Any:
    """So many parts of equal size along an axis, the last one smaller where they do not fit."""
    return x.chunk(chunks, dim)


def randperm(n: int) -> Tensor:
    """0 … n - 1 in random order."""
    return _starling.permutation(n)


_SAME = {
    "cat": "concat",
    "concatenate": "concat",
    "clip": "clamp",
    "mse_loss": "mse",
    "l1_loss": "l1",
    "nll_loss": "nll",
    "smooth_l1_loss": "smooth_l1",
    "huber_loss": "huber",
    "binary_cross_entropy": "bce",
    "binary_cross_entropy_with_logits": "bce_with_logits",
    "absolute": "abs",
    "multiply": "mul",
    "subtract": "sub",
    "divide": "div",
    "true_divide": "div",
    "remainder": "mod",
    "mm": "matmul",
    "bmm": "matmul",
    "inv": "inverse",
    "det": "determinant",
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "permute_dims": "permute",
    "expand_dims": "unsqueeze",
    "get_rng_state": "random_state",
    "set_rng_state": "set_random_state",
}
for _theirs, _ours in _SAME.items():
    globals()[_theirs] = getattr(_starling, _ours)
__all__ = [name for name in globals() if not name.startswith("_") and name not in ("annotations", "Any", "Tensor")]
