"""Words for calls of the compiled part whose arguments fit none of its functions: which argument, what it expects, what it got."""

from __future__ import annotations

import difflib
import re
from typing import Any, Sequence

from . import _starling

_EMPTY = object()
_ELSEWHERE = {  # words of other frameworks for keywords of ours, or what stands in their place
    "op": "reduce",
    "retain_graph": "nothing: a second backward() through the same values works as it is",
    "create_graph": "sl.grad(), whose results have gradients",
    "decimals": "(x * 10**n).round() / 10**n",
    "out": "x.copy_(result)",
    "inplace": "nothing: results are new tensors",
    "requires_grad": "x.requires_grad_()",
    "device": "x.to(device)",
    "dim": "axis",
    "unbiased": "correction=0 or correction=1",
}
_INSTEAD = {"num_threads": "set_num_threads(n) sets it"}
_WORDS = {
    "int": "an int",
    "float": "a number",
    "bool": "True or False",
    "str": "a string",
    "dict": "a dict",
    "TensorLike": "a tensor, number, array or nested lists of numbers",
    "int | Sequence[int]": "an int or a sequence of ints",
    "DTypeLike": "a dtype, such as sl.f32 or \"float32\"",
    "DeviceLike": "a device, such as \"cpu\" or \"cuda:0\"",
    "starling._starling.Tensor": "a tensor",
    "starling._starling.ModuleBase": "a module",
    "object": "anything but None",
}


class _Parameter:
    def __init__(self, text: str):
        text, equals, default = text.partition(" = ")
        self.default = default if equals else None
        self.name, _, self.kind = (part.strip() for part in text.partition(":"))
        self.any_number = self.name.startswith("*") and self.name != "*"

    def __str__(self) -> str:
        return self.name if self.default is None else f"{self.name}={self.default}"


def _parameters(text: str) -> list[_Parameter]:
    """Of a signature's inside: commas within brackets and quotes part nothing."""
    parts, depth, begin = [], 0, 0
    for at, letter in enumerate(text + ","):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append(text[begin:at].strip())
            begin = at + 1
    return [_Parameter(part) for part in parts if part and part != "/"]


def _fits(value: Any, kind: str) -> bool:
    """Whether a value is of the kind that an annotation names; kinds that are not known fit."""
    if kind == "object":
        return value is not None
    if kind.endswith(" | None"):
        return value is None or _fits(value, kind[: -len(" | None")])
    try:
        if kind == "int":
            return isinstance(value, int) or hasattr(value, "__index__") and not isinstance(value, _starling.Tensor)
        if kind == "float":
            return isinstance(value, (int, float)) or hasattr(value, "__float__") and not isinstance(value, str)
        if kind == "bool":
            return isinstance(value, bool)
        if kind in ("str", "dict"):
            return isinstance(value, {"str": str, "dict": dict}[kind])
        if kind == "TensorLike":
            _starling.asarray(value)
            return True
        if kind == "int | Sequence[int]":
            return _is_shape(value)
        if kind == "DTypeLike":
            _starling.dtype(value)
            return True
        if kind == "DeviceLike":
            _starling.Device(value)
            return True
    except Exception:  # noqa: BLE001 - whatever was wrong, it does not fit
        return False
    if kind.startswith("starling._starling."):
        return isinstance(value, getattr(_starling, kind.rpartition(".")[2], object))
    return True


def _is_shape(value: Any) -> bool:
    def is_size(one: Any) -> bool:
        return hasattr(one, "__index__") and not isinstance(one, (bool, _starling.Tensor))

    return is_size(value) or isinstance(value, (list, tuple)) and len(value) <= 8 and all(map(is_size, value))


def _shown(value: Any) -> str:
    text = repr(value) if value is None or isinstance(value, (bool, int, float, str, list, tuple, dict, _starling.DType)) else ""
    return text if text and len(text) <= 60 and "\n" not in text else f"a value of type {type(value).__name__}"


def _expected(kind: str) -> str:
    if kind.endswith(" | None"):
        return f"{_expected(kind[: -len(' | None')])}, or None"
    known = _WORDS.get(kind)
    if known is not None:
        return known
    kind = kind.replace("starling._starling.", "")
    return f"a value of type {kind}" if kind else "a value"


def _keyword(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    instead = _ELSEWHERE.get(name)
    if instead in known or near:
        return f"got '{name}' (did you mean '{instead if instead in known else near[0]}'?)"
    return f"got '{name}'" + (f" (here it is {instead})" if instead else "")


def _attributes(name: str) -> str:
    """Options of an op, which go by name."""
    op = _starling.all_ops().get(name)
    return "its options go by name" if op is None else f"{', '.join(op.attributes)} go by name"


def _problem(name: str, parameters: list[_Parameter], values: Sequence[Any], keywords: dict[str, Any]) -> tuple[int, str]:
    """What is wrong with a call of one signature, and how far it went well."""
    names = [one.name for one in parameters]
    by_position = parameters[: names.index("*")] if "*" in names else parameters
    rest = next((one for one in parameters if one.any_number and not one.name.startswith("**")), None)
    if rest is not None:
        by_position = parameters[: parameters.index(rest)]
    plain = [one for one in by_position if not one.any_number]
    known = {one.name: one for one in parameters if one.name != "*" and not one.any_number}
    anything = any(name.startswith("**") for name in names)
    if len(values) > len(plain) and rest is None:
        what = _attributes(name) if anything else _INSTEAD.get(name, f"({', '.join(map(str, known.values()))})")
        most = f"at most {len(plain)} value{'s' * (len(plain) != 1)} by position" if plain else "no values"
        return len(plain), f"expected {most}, got {len(values)}: {what}"
    for number, word in enumerate(keywords):
        if word not in known and not anything:
            return len(values) + number, f"expected keywords out of ({', '.join(known)}), {_keyword(word, list(known))}"
    given = {**{one.name: value for one, value in zip(plain, values)}, **keywords}
    for number, one in enumerate(known.values()):
        value = given.get(one.name, _EMPTY)
        if value is _EMPTY and one.default is None:
            return number, f"expected a value for {one.name}, got none: ({', '.join(map(str, known.values()))})"
        if value is not _EMPTY and not _fits(value, one.kind):
            return number, f"expected {_expected(one.kind)} for {one.name}, got {_shown(value)}"
    if rest is not None and not _is_shape(tuple(values[len(plain) :])):
        far = len(values) if len(values) > 1 and all(isinstance(value, (int, float)) for value in values) else 0
        return far, f"expected {rest.name.lstrip('*')} as ints, got {', '.join(map(_shown, values))}"
    return -1, ""


def signatures(text: str) -> list[tuple[str, list[_Parameter]]]:
    """Name and parameters of the functions that nanobind names in a refusal or a docstring, a line for each."""
    found = re.findall(r"^ *(?:\d+\. )?``?(\w+)\((.*)\) -> .*$|^ *(?:\d+\. )?(\w+)\((.*)\) -> .*$", text, flags=re.M)
    return [(quoted or name, _parameters(quoted_inside or inside)) for quoted, quoted_inside, name, inside in found]


def explained(text: str, kind: str | None, values: list[Any], keywords: dict[str, Any]) -> str | None:
    """The refusal in our words; None: none were found."""
    if values and isinstance(values[0], _starling.ModuleBase) and not _starling._is_made(values[0]):
        who = type(values[0]).__name__
        return f"[module] expected {who}.__init__ to call super().__init__() first, got a {who} that did not"
    found = signatures(text)
    if not found:
        return None
    told = []
    for name, parameters in found:
        if kind is not None and parameters and parameters[0].name == "self":
            parameters = parameters[1:]
        elif parameters and parameters[0].name == "self":
            parameters, rest = parameters[1:], values[1:]
            told.append((*_problem(name, parameters, rest, keywords), name))
            continue
        told.append((*_problem(name, parameters, values, keywords), name))
    told = [one for one in told if one[0] >= 0]
    if not told:
        return None
    _, words, name = max(told, key=lambda one: one[0])
    who = kind or name.strip("_")
    return f"[{who}] {words}"
