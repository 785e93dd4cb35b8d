"""Every op of the registry by its name, with its attributes as keywords: op.conv2d(x, weight, stride=2).

help(op.conv2d) and inspect.signature(op.conv2d) tell inputs, attributes and their defaults.
"""

from typing import TYPE_CHECKING

from ._signatures import describe as _describe, signature_of as _signature_of
from ._starling import Op as _Op, all_ops as _all_ops

if TYPE_CHECKING:
    from ._typed_op import *  # noqa: F403

setattr(_Op, "__signature__", property(_signature_of))
_table = _all_ops()
for _op in _table.values():
    _op.__doc__ = _describe(_op)
globals().update(_table)
__all__ = sorted(_table)
