"""Control flow that depends on values, eager and inside compile(): one of two branches, loops, scans.

Arguments and results may be nested in tuples, lists and dicts. Inside compile() every function given here is traced once; what it
reads from outside becomes an operand, so that gradients flow there too.
"""

from __future__ import annotations

from typing import Any, Callable

from . import _starling
from ._compile import _flatten, _unflatten


class _Shape:
    """The structure that a function's results have, the same whenever it is called."""

    def __init__(self, who: str):
        self.who = who
        self.structure: Any = None

    def flat(self, value: Any) -> list[Any]:
        leaves: list[Any] = []
        structure = _flatten(value, leaves, results=True)
        if self.structure is not None and structure != self.structure:
            raise TypeError(f"[{self.who}] expected results of one structure, got others from another branch or trip")
        self.structure = structure
        return [_starling.asarray(leaf) for leaf in leaves]

    def nested(self, leaves: Any) -> Any:
        return _unflatten(self.structure, iter(leaves))


def cond(predicate: Any, then: Callable[..., Any], otherwise: Callable[..., Any], *operands: Any) -> Any:
    """then(*operands) where the predicate, one boolean, holds, else otherwise(*operands); only that one runs."""
    shape = _Shape("cond")
    results = _starling._cond(predicate, lambda: shape.flat(then(*operands)), lambda: shape.flat(otherwise(*operands)))
    return shape.nested(results)


def while_loop(condition: Callable[[Any], Any], body: Callable[[Any], Any], state: Any, *, max_trips: int = 0) -> Any:
    """The state after state = body(state) for as long as condition(state) holds.

    Every part of the state keeps its dtype and shape. With max_trips a compiled loop has static memory and can be differentiated
    any number of times; a condition that holds for longer is an error.
    """
    shape = _Shape("while_loop")
    first = shape.flat(state)
    results = _starling._while_loop(
        lambda leaves: condition(shape.nested(leaves)), lambda leaves: shape.flat(body(shape.nested(leaves))), first, max_trips
    )
    return shape.nested(results)


def scan(body: Callable[[Any, Any], Any], carry: Any, xs: Any) -> Any:
    """(carry, y) = body(carry, x) for the slices x of xs along axis 0: the last carry, and all y along a new axis 0."""
    carries, slices, ys = _Shape("scan"), _Shape("scan"), _Shape("scan")
    first, rows = carries.flat(carry), slices.flat(xs)

    def one(now: list[Any], x: list[Any]) -> tuple[list[Any], list[Any]]:
        both = body(carries.nested(now), slices.nested(x))
        if not isinstance(both, tuple) or len(both) != 2:
            raise TypeError(f"[scan] expected a body that returns (carry, y), got {type(both).__name__}")
        return carries.flat(both[0]), ys.flat(both[1])

    last, stacked = _starling._scan(one, first, rows)
    return carries.nested(last), ys.nested(stacked)
