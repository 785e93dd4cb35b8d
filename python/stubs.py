"""stubs.py FOLDER: writes stubs for type checkers beside the compiled part in FOLDER, from what it holds.

_starling.pyi: by nanobind's generator, with the methods that _methods.py gives to tensors.
_typed_*.pyi:  what the package makes at import of the library's registries: ops, layers, optimizers, schedules, metrics,
               networks, strategies. They exist for type checkers only; the modules import them under TYPE_CHECKING.
"""

from __future__ import annotations

import ast
import importlib.util
import keyword
import pathlib
import re
import sys

from nanobind.stubgen import StubGen

HEAD = '''\
import os
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any, Protocol, TypeAlias, overload

class Array(Protocol):  # of NumPy, PyTorch, JAX, ...
    @property
    def shape(self) -> Any: ...
    @property
    def dtype(self) -> Any: ...

# What stands for a tensor, a dtype and a device in calls.
TensorLike: TypeAlias = Tensor | bool | int | float | Sequence[Any] | Array
DTypeLike: TypeAlias = DType | str | type
DeviceLike: TypeAlias = Device | str
'''
MODULE_METHODS = """\
    def named_children(self) -> Iterator[tuple[str, ModuleBase]]: ...
    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, ModuleBase]]: ...
    def modules(self) -> Iterator[ModuleBase]: ...
    def apply(self, function: Callable[[ModuleBase], Any]) -> ModuleBase: ...
    def zero_grad(self) -> None: ...
    def float(self) -> ModuleBase: ...
    def double(self) -> ModuleBase: ...
    def half(self) -> ModuleBase: ...
    def cpu(self) -> ModuleBase: ...
    def cuda(self, device: int = 0) -> ModuleBase: ...
    def requires_grad_(self, on: bool = True) -> ModuleBase: ...
    def get_submodule(self, path: str) -> ModuleBase: ...
    def register_forward_pre_hook(self, hook: Callable[..., Any]) -> Any: ...
    def register_forward_hook(self, hook: Callable[..., Any]) -> Any: ...
"""
TYPED = "from collections.abc import Sequence\nfrom typing import Any\n\n"


def load(folder: pathlib.Path):
    """The compiled part alone: the package around it would give its classes more than they have here."""
    (file,) = folder.glob("_starling*.so")
    spec = importlib.util.spec_from_file_location("_starling", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules["_starling"] = module
    spec.loader.exec_module(module)
    return module


def strict(text: str) -> str:
    """The generator's stub with no type left out."""
    text = re.sub(r"(\*\*?\w+)(?=[,)])", r"\1: Any", text)
    text = re.sub(r"\bdict\b(?!\[)(?=[^\w(])", "dict[Any, Any]", text)
    text = re.sub(r"(->|:) (list|tuple)\b(?!\[)", lambda m: f"{m[1]} {m[2]}[Any{', ...' if m[2] == 'tuple' else ''}]", text)
    text = re.sub(r"(?<=[:>] )object\b", "Any", text)
    text = re.sub(r"Any \| None = None", "Any = None", text)
    text = re.sub(r"-> (DType|Device)Like:", r"-> \1:", text)
    text = re.sub(r"-> int \| Sequence\[int\]:", "-> tuple[int, ...]:", text)  # shapes
    return re.sub(r"def __eq__\(self, other: [^)]*\)", "def __eq__(self, other: object)", text)


def methods_of_tensors(stub: str, names: list[str]) -> str:
    """Functions of the module as methods: sum(x, axis) as x.sum(axis)."""
    made = []
    for name in names:
        found = re.findall(rf"^((?:@overload\n)?def {name}\((.*?)\) -> ([^:]*):.*)$", stub, flags=re.M)
        for whole, arguments, result in found:
            rest = arguments.partition(",")[2].strip()
            overload = "    @overload\n" if whole.startswith("@") else ""
            made.append(f"{overload}    def {name}(self{', ' + rest if rest else ''}) -> {result}: ...")
    made += [
        "    def reshape(self, *shape: Any) -> Tensor: ...",
        "    def view(self, *shape: Any) -> Tensor: ...",
        "    def permute(self, *order: Any) -> Tensor: ...",
        "    def transpose(self, *order: Any) -> Tensor: ...",
        "    def where(self, condition: TensorLike, other: TensorLike) -> Tensor: ...",
        "    def __iter__(self) -> Iterator[Tensor]: ...",
        "    @property\n    def T(self) -> Tensor: ...",
        "    @property\n    def mT(self) -> Tensor: ...",
        "    def __array_namespace__(self, /, *, api_version: str | None = None) -> Any: ...",
        "    def to_device(self, device: DeviceLike, /, *, stream: Any = None) -> Tensor: ...",
        "    def __complex__(self) -> complex: ...",
        "    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **keywords: Any) -> Any: ...",
        "    def __array_function__(self, function: Any, types: Any, arguments: Any, keywords: Any) -> Any: ...",
        "    def chunk(self, chunks: int, dim: int = 0) -> Any: ...",
        "    def copy_(self, source: TensorLike) -> Tensor: ...",
        "    def fill_(self, value: TensorLike) -> Tensor: ...",
        "    def zero_(self) -> Tensor: ...",
        "    def cpu(self) -> Tensor: ...",
        "    def cuda(self, device: Any = 0) -> Tensor: ...",
        "    def contiguous(self) -> Tensor: ...",
        "    def t(self) -> Tensor: ...",
        "    def dim(self) -> int: ...",
        "    def mm(self, other: TensorLike) -> Tensor: ...",
        "    def bmm(self, other: TensorLike) -> Tensor: ...",
        "    def clip(self, min: Any = None, max: Any = None) -> Tensor: ...",
        "    def clamp_(self, min: Any = None, max: Any = None) -> Tensor: ...",
        "    def masked_fill_(self, mask: TensorLike, value: TensorLike) -> Tensor: ...",
        "    def normal_(self, mean: float = 0.0, std: float = 1.0) -> Tensor: ...",
        "    def uniform_(self, low: float = 0.0, high: float = 1.0) -> Tensor: ...",
        "    def type_as(self, other: Tensor) -> Tensor: ...",
        "    def expand_as(self, other: Tensor) -> Tensor: ...",
        "    def view_as(self, other: Tensor) -> Tensor: ...",
        "    def __round__(self, digits: int | None = None) -> Tensor: ...",
        "    def __divmod__(self, other: TensorLike) -> tuple[Any, Any]: ...",
        "    def __rdivmod__(self, other: TensorLike) -> tuple[Any, Any]: ...",
        "    @property\n    def itemsize(self) -> int: ...",
        "    @property\n    def nbytes(self) -> int: ...",
    ]
    made += [f"    def {name}(self, other: TensorLike, *, alpha: float = 1) -> Tensor: ..." for name in ("add", "sub", "mul", "div")]
    made += [f"    def {name}(self, other: TensorLike) -> Tensor: ..." for name in ("eq", "ne", "lt", "le", "gt", "ge")]
    made += plain_functions()
    made += [f"    def {kind}(self) -> Tensor: ..." for kind in ("float", "double", "half", "long", "int", "bool")]
    made += [f"    def {name}_(self, other: TensorLike, *, alpha: float = 1) -> Tensor: ..." for name in ("add", "sub", "mul", "div")]
    for operator in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor"):
        made.append(f"    def __i{operator}__(self, other: TensorLike) -> Tensor: ...")
    return "\n\n".join(made)


def plain_functions() -> list[str]:
    """Functions of _functions.py that are methods, too."""
    tree = ast.parse((pathlib.Path(__file__).parent / "starling/_functions.py").read_text())
    (listed,) = (node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "METHODS")
    methods = ast.literal_eval(listed.func.value)
    made = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name in methods.split():
            rest = ast.unparse(node.args).partition(",")[2].strip()
            made.append(f"    def {node.name}(self{', ' + rest if rest else ''}) -> {ast.unparse(node.returns)}: ...")
    return made


def with_attributes(stub: str, ops: dict) -> str:
    """Functions that take attributes by name, with the names that there are."""

    def named(found: re.Match) -> str:
        op = ops.get(found[1])
        if op is None:
            return found[0]
        taken = {part.split(":")[0].strip() for part in found[2].split(",")}
        words = attributes_of(op, taken)
        return f"def {found[1]}({found[2]}{', *, ' + words if words else ''}) -> {found[3]}:"

    return re.sub(r"^def (\w+)\((.*?), \*\*attributes: Any\) -> (.*):", named, stub, flags=re.M)


def compiled_part(module, names: list[str]) -> str:
    generator = StubGen(module, include_private=True)
    generator.put(module)
    stub = strict(generator.get())
    stub = re.sub(r"^(from|import) .*\n", "", stub, flags=re.M)
    stub = with_attributes(stub, module.all_ops())
    methods = methods_of_tensors(stub, [name for name in names if name not in ("reshape", "permute", "transpose", "where")])
    # Types behind these methods are the builtins, which methods of the same names hide in the class.
    begin = stub.index("class Tensor:")
    end = stub.index("\n\n", stub.index("__dlpack_device__", begin))
    body = stub[begin:end] + "\n\n" + methods
    body = re.sub(r"(def __r?\w+__\(self, other: )Any \| None\) -> Any", r"\1TensorLike) -> Tensor", body)  # operators
    body = body.replace("def __eq__(self, other: object) -> Any: ...", "def __eq__(self, other: object) -> Tensor: ...  # type: ignore[override]")
    body = re.sub(r"(def __ne__.*)", r"\1  # type: ignore[override]", body)
    body = re.sub(r"(?<=[:>\[|] )(float|int|bool)\b|(?<=\[)(float|int|bool)\b", lambda m: f"builtins.{m[0]}", body)
    rest = stub[end:].replace("__array_priority__: int", "__array_priority__: builtins.int").replace("class ModuleBase:\n", "class ModuleBase:\n    _made: Any\n" + MODULE_METHODS, 1)
    return "import builtins\n" + HEAD + "\n__version__: str\n" + stub[:begin] + body + rest


KINDS = {"integer": "int", "number": "float", "boolean": "bool", "string": "str"}


def option_type(schema: dict) -> str:
    return KINDS.get(schema.get("type"), "Any")


def options_of(schema: dict, names: list[str]) -> str:
    properties = schema.get("properties", {})
    words = [f"{name}: {option_type(properties[name])} = ..." for name in names if not keyword.iskeyword(name)]
    return ", ".join(words)


def camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def typed_layers(module) -> str:
    own = {name for name in dir(module)}
    lines = [TYPED + "from starling.nn import _Layer\n"]
    for name, (_, schema, options) in module._layer_kinds().items():
        if camel(name) in own or camel(name) == "Sequential":
            continue
        words = options_of(schema, options)
        also = ", dim: int = ..." if "axis" in options else ""
        also += ", kernel_size: Any = ..." if "kernel" in options else ""
        lines.append(f"class {camel(name)}(_Layer):\n    def __init__(self{', ' + words if words else ''}{also}) -> None: ...\n")
    return "\n".join(lines)


def typed_rules(kinds: dict, base: str, first: str, names: dict) -> str:
    module = {"Optimizer": "optim", "Schedule": "schedules", "Metric": "metrics"}[base]
    lines = [TYPED + f"from starling.{module} import {base}\n"]
    for name, (_, schema, options) in kinds.items():
        words = options_of(schema, [option for option in options if base != "Optimizer" or option != "lr"])
        lines.append(f"class {names.get(name, camel(name))}({base}):")
        given = ", ".join(part for part in ("self", first, "*, " + words if words else "") if part)
        lines.append(f"    def __init__({given}) -> None: ...\n")
    return "\n".join(lines)


def attribute_type(default) -> str:
    """As starling/_signatures.py tells it; the two of them are compared by a test."""
    if isinstance(default, (tuple, list)):
        return "int | Sequence[int]"
    return "DTypeLike" if type(default).__name__ == "DType" else type(default).__name__


def attributes_of(op, taken: set[str]) -> str:
    words = [f"{name}: {attribute_type(default)} = ..." for name, default in op.attributes.items()
             if not keyword.iskeyword(name) and name not in taken]
    return ", ".join(words)


def arguments_of(op) -> str:
    parts, taken, variadic = [], set(), False
    for one in op.inputs:
        name = one.rstrip("?").removesuffix("...")
        taken.add(name)
        if one.endswith("..."):
            parts.append(f"*{name}: TensorLike | Sequence[TensorLike]")
            variadic = True
        else:
            parts.append(f"{name}: TensorLike | None = None" if one.endswith("?") else f"{name}: TensorLike")
    words = attributes_of(op, taken)
    return ", ".join(["self", *parts, *([] if variadic or not words else ["*"]), *([words] if words else []), "**others: Any"])


def typed_ops(module) -> str:
    lines = [TYPED + "from starling._starling import DTypeLike, Op, Tensor, TensorLike\n"]
    for name, op in sorted(module.all_ops().items()):
        if not name.isidentifier() or keyword.iskeyword(name):
            continue
        result = "Tensor" if len(op.outputs) == 1 and not is_many(op) else "Any"
        lines.append(f"class _{name}(Op):\n    def __call__({arguments_of(op)}) -> {result}: ...\n")
        lines.append(f"{name}: _{name}" + (f"  # {op.doc}" if "\n" not in op.doc else ""))
    return "\n".join(lines) + "\n"


def is_many(op) -> bool:
    """Whether the one name of results stands for several, as it does where inputs of any number come out again."""
    return op.outputs[0].endswith("s")


def typed_networks(module) -> str:
    lines = [TYPED + "from starling._starling import ModuleBase\n"]
    types = {bool: "bool", int: "int", float: "float", str: "str"}
    for name in module._zoo_names():
        options = module._zoo_doc(name)[1]
        words = ", ".join(f"{key}: {types.get(type(value), 'Any')} = ..." for key, value in options.items())
        lines.append(f"def {name}({'*, ' + words if words else ''}) -> ModuleBase: ...")
    return "\n".join(lines) + "\n"


def typed_strategies(module) -> str:
    lines = [TYPED + "from starling._starling import Strategy\n"]
    for name, (_, schema, options) in module._strategy_kinds().items():
        words = options_of(schema, options)
        written = name + "_" if keyword.iskeyword(name) else name
        lines.append(f"def {written}({'*, ' + words if words else ''}) -> Strategy: ...")
    return "\n".join(lines) + "\n"


def main(folder: pathlib.Path) -> None:
    module = load(folder)
    package = pathlib.Path(__file__).parent / "starling"
    methods = re.search(r'_METHODS = """(.*?)"""', (package / "_methods.py").read_text(), re.S)[1].split()
    capitals = dict(re.findall(r'"(\w+)": "(\w+)"', re.search(r"_NAMES = {(.*?)}", (package / "optim.py").read_text())[1]))
    made = {
        "_starling": compiled_part(module, methods),
        "_typed_nn": typed_layers(module),
        "_typed_optim": typed_rules(module._optimizer_kinds(), "Optimizer", "parameters: Any, lr: float = ...", capitals),
        "_typed_schedules": typed_rules(
            module._schedule_kinds(), "Schedule", "optimizer: Any, steps: int = 0, steps_per_epoch: int = 0", {}
        ),
        "_typed_metrics": typed_rules(module._metric_kinds(), "Metric", "", {}),
        "_typed_op": typed_ops(module),
        "_typed_zoo": typed_networks(module),
        "_typed_dist": typed_strategies(module),
    }
    for name, text in made.items():
        (folder / f"{name}.pyi").write_text(text)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
