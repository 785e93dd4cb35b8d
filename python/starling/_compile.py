"""compile(): functions of tensors, in any nesting of tuples, lists and dicts, as programs."""

from __future__ import annotations

import functools
import html
import threading
import weakref
from collections import OrderedDict
from typing import Any, Callable, Iterator

from . import _starling
from ._starling import Tensor


class _Static:
    """A value that is no tensor: a program is made for each. 1, 1.0 and True are three of them."""

    __slots__ = ("value", "_key")

    def __init__(self, value: Any):
        self.value = value
        self._key = (type(value), value.hex() if isinstance(value, float) else value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Static) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


_LEAF = object()  # stands for a tensor in a structure
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def _is_array(value: Any) -> bool:
    return isinstance(value, Tensor) or (hasattr(value, "__array__") and hasattr(value, "shape"))


def _flatten(value: Any, leaves: list[Any], results: bool = False) -> Any:
    """The structure of a value; its tensors go to `leaves`. Of results nothing else may hold tensors."""
    if _is_array(value):
        leaves.append(value)
        return _LEAF
    if isinstance(value, (tuple, list)):
        return (type(value), tuple(_flatten(item, leaves, results) for item in value))
    if isinstance(value, dict):
        return (dict, tuple((key, _flatten(item, leaves, results)) for key, item in value.items()))
    if results and not isinstance(value, _PLAIN):
        raise TypeError(
            "[compile] expected tensors, numbers and strings in tuples, lists and dicts as results, "
            f"got {type(value).__name__}"
        )
    return _Static(value)


def _unflatten(structure: Any, leaves: Iterator[Any]) -> Any:
    if structure is _LEAF:
        return next(leaves)
    if isinstance(structure, _Static):
        return structure.value
    kind, content = structure
    if kind is dict:
        return {key: _unflatten(item, leaves) for key, item in content}
    items = [_unflatten(item, leaves) for item in content]
    return kind(*items) if hasattr(kind, "_fields") else kind(items)


class CompiledFunction:
    """A function that is traced at its first call with arguments of given types and runs as one program from then on.

    Tensors may come in tuples, lists and dicts; NumPy arrays are read in place. Other arguments must be hashable: a
    program is made for each of their values, and the `cache` values used last keep theirs. Python code of the function
    runs only while it is traced. Calls of several threads follow one another. Of a method every instance has programs of
    its own, which end with it.
    """

    def __init__(self, function: Callable[..., Any], cache: int = 64, **options: Any):
        if not callable(function):
            raise TypeError(f"[compile] expected a function, got {function!r}")
        if cache < 1:
            raise ValueError(f"[compile] expected a cache of at least one program, got {cache}")
        functools.update_wrapper(self, function)
        self._function = function
        self._options = options
        self._cache = cache
        self._entries: OrderedDict[Any, _Entry] = OrderedDict()  # by structure, the one used last at the end
        self._lock = threading.RLock()  # values that are compared or collected inside may call this function
        self._last: _Entry | None = None
        self._traced_by: set[int] = set()  # threads that trace it right now
        # By identity, since instances that are equal may hold other tensors; an entry ends with its instance.
        self._of_instances: dict[int, tuple[weakref.ref[Any], CompiledFunction]] = {}

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        if _starling._tracing():
            return self._inside(arguments, keywords)
        leaves: list[Any] = []
        structure = _flatten((arguments, keywords), leaves)
        self._last = entry = self._entry(structure)
        return entry(leaves)

    def _inside(self, arguments: Any, keywords: Any) -> Any:
        """The call within another compiled function, whose program takes the ops in."""
        me = threading.get_ident()
        if me in self._traced_by:
            raise _starling.Error("[compile] expected a compiled function that does not call itself, got one that does: use while_loop() or scan()")
        if self._options.get("strategy") is not None:
            raise _starling.Error("[compile] expected the strategy at the outer compiled function, got one at a function that it calls")
        return self._function(*arguments, **keywords)

    def _entry(self, structure: Any) -> "_Entry":
        try:
            hash(structure)
        except TypeError:
            raise TypeError("[compile] expected tensors, arrays and hashable values as arguments") from None
        evicted = None  # dropped outside of the lock, with what its function holds
        with self._lock:
            entry = self._entries.get(structure)
            if entry is None:
                entry = self._entries[structure] = _Entry(self._function, structure, self._options, self._traced_by)
            self._entries.move_to_end(structure)
            if len(self._entries) > self._cache:
                evicted = self._entries.popitem(last=False)
        del evicted
        return entry

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        # Whoever holds the method holds the instance; the programs alone do not.
        return _BoundMethod(self._of_instance(instance), instance)

    def _of_instance(self, instance: Any) -> "CompiledFunction":
        known = self._of_instances.get(id(instance))
        if known is None or known[0]() is not instance:
            made = self._referred(instance)
            with self._lock:  # another thread may have been faster
                known = self._of_instances.get(id(instance))
                if known is None or known[0]() is not instance:
                    known = self._of_instances[id(instance)] = (made, self._bound_to(made))
        return known[1]

    def _referred(self, instance: Any) -> "weakref.ref[Any]":
        """A reference to an instance that takes its programs away when it ends."""
        number, owner = id(instance), weakref.ref(self)

        def forget(reference: Any) -> None:  # runs anywhere, so without the lock: each step on the dict is a whole one
            own = owner()
            if own is not None:
                own._of_instances.pop(number, None)

        try:
            return weakref.ref(instance, forget)
        except TypeError:
            raise TypeError(
                f"[compile] expected a method of a class whose instances can be referred to weakly, got one of "
                f"{type(instance).__name__}: add '__weakref__' to its __slots__"
            ) from None

    def _bound_to(self, me: "weakref.ref[Any]") -> "CompiledFunction":
        function = self._function

        @functools.wraps(function)
        def method(*arguments: Any, **keywords: Any) -> Any:
            return function(me(), *arguments, **keywords)

        return CompiledFunction(method, self._cache, **self._options)

    def __repr__(self) -> str:
        name = getattr(self, "__qualname__", type(self._function).__name__)
        return f"<compiled {name}: {len(self._entries) or 'not called yet, no'} program{'s' * (len(self._entries) != 1)}>"

    def _program(self) -> _starling.Program:
        if self._last is None:
            raise _starling.Error("[compile] expected a call before: nothing is compiled yet")
        return self._last.program

    def explain(self) -> str:
        """Times of the compilation, instructions and memory of the program called last."""
        return self._program().explain()

    def graph(self, traced: bool = False) -> str:
        """The program called last as text, as it runs or as it was traced."""
        return self._program().traced_graph() if traced else self._program().graph()

    def _repr_html_(self) -> str:
        """Shown by notebooks: the program called last."""
        name = html.escape(getattr(self, "__name__", "function"))
        if self._last is None:
            return f"<code>{name}</code>: not compiled yet"
        about = f"{len(self._entries)} structures of arguments, {self.memory_bytes} bytes of values"
        return f"<details><summary><code>{name}</code>: {about}</summary><pre>{html.escape(self.graph())}</pre></details>"

    @property
    def memory_bytes(self) -> int:
        """Bytes of the values of the program called last, beside its variables."""
        return self._program().memory_bytes


class _BoundMethod:
    """A compiled method of an instance."""

    def __init__(self, compiled: CompiledFunction, instance: Any):
        self._compiled = compiled
        self.__self__ = instance

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self._compiled(*arguments, **keywords)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compiled, name)


class _Entry:
    """Programs for arguments of one structure.

    Every program returns, beside its tensors, the number of the structure that its results have: so it is the right
    one, whichever of several programs ran and on whichever thread.
    """

    def __init__(self, function: Callable[..., Any], structure: Any, options: dict[str, Any], traced_by: set[int]):
        self._function = function
        self._traced_by = traced_by
        self._structure = structure
        self._results: list[Any] = []  # written while the program is traced, which one thread does at a time
        # The program must not keep this entry alive, which keeps the program: no collector would find that circle.
        me: Any = weakref.ref(self)
        self.program = _starling.Program(lambda leaves: me()._trace(leaves), **options)

    def _trace(self, leaves: list[Any]) -> list[Any]:
        arguments, keywords = _unflatten(self._structure, iter(leaves))
        results: list[Any] = []
        me = threading.get_ident()
        self._traced_by.add(me)
        try:
            structure = _flatten(self._function(*arguments, **keywords), results, results=True)
        finally:
            self._traced_by.discard(me)
        self._results.append(structure)
        return results + [_starling.full((), len(self._results) - 1, _starling.i64)]

    def __call__(self, leaves: list[Any]) -> Any:
        *results, number = self.program.call(leaves)
        return _unflatten(self._results[number.item()], iter(results))


def compile(
    function: Callable[..., Any] | None = None,
    *,
    strategy: Any = None,
    threads: int = 0,
    memory_budget: int = 0,
    disable: tuple[str, ...] = (),
    reference_only: bool = False,
    cache: int = 64,
) -> Any:
    """A function as a program, with its gradients and updates: @compile, or compile(f, strategy=…).

    Inside of another compiled function it is part of that one's program. Random numbers that it draws (randn, dropout, …) belong to the
    seed and the step: they are the same at every call until optimizer.step(), inside or outside, or next_step() moves them on.
    """
    options = {
        "strategy": strategy,
        "threads": threads,
        "memory_budget": memory_budget,
        "disable": set(disable),
        "reference_only": reference_only,
        "cache": cache,
    }
    if function is None:
        return lambda f: CompiledFunction(f, **options)
    return CompiledFunction(function, **options)
