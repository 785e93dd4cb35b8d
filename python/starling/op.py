"""Every op of the registry by its name, with its attributes as keywords: op.conv2d(x, weight, stride=2)."""

from typing import TYPE_CHECKING

from ._starling import all_ops as _all_ops

if TYPE_CHECKING:
    from ._typed_op import *  # noqa: F403

_table = _all_ops()
globals().update(_table)
__all__ = sorted(_table)
