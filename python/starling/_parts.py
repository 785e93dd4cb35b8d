"""What every module knows of its parts: names, walks over them, hooks around its calls."""

# mypy: disable-error-code="attr-defined,method-assign"
# These methods are assigned to a class of the compiled part; its stub declares them (stubs.py).

from __future__ import annotations

from typing import Any, Callable, Iterator

from ._starling import ModuleBase


def _named_children(self: ModuleBase) -> Iterator[tuple[str, ModuleBase]]:
    """The parts of this module by their names."""
    yield from self.children.items()


def _named_modules(self: ModuleBase, prefix: str = "") -> Iterator[tuple[str, ModuleBase]]:
    """This module and all below it by their paths, each once."""
    seen: set[int] = set()

    def walk(module: ModuleBase, path: str) -> Iterator[tuple[str, ModuleBase]]:
        if id(module) in seen:
            return
        seen.add(id(module))
        yield path, module
        for name, child in module.children.items():
            yield from walk(child, f"{path}.{name}" if path else name)

    yield from walk(self, prefix)


def _modules(self: ModuleBase) -> Iterator[ModuleBase]:
    """This module and all below it."""
    for _, module in _named_modules(self):
        yield module


def _apply(self: ModuleBase, function: Callable[[ModuleBase], Any]) -> ModuleBase:
    """function(module) for all parts, then for this one: apply(lambda m: …), to begin weights in a way of one's own."""
    for child in self.children.values():
        _apply(child, function)
    function(self)
    return self


def _zero_grad(self: ModuleBase) -> None:
    """Empties the gradients of all parameters."""
    for parameter in self.parameters():
        parameter.grad = None


def _in_dtype(name: str, dtype: str) -> Callable[[ModuleBase], ModuleBase]:
    def convert(self: ModuleBase) -> ModuleBase:
        made: ModuleBase = self.to(dtype)
        return made

    convert.__doc__ = f"Parameters and buffers as {dtype}, in place; returns the module. Make optimizers afterwards."
    convert.__name__ = name
    return convert


def _cpu(self: ModuleBase) -> ModuleBase:
    """Parameters and buffers on the CPU, in place; returns the module."""
    made: ModuleBase = self.to("cpu")
    return made


def _cuda(self: ModuleBase, device: int = 0) -> ModuleBase:
    """Parameters and buffers on a GPU, in place; returns the module."""
    made: ModuleBase = self.to(f"cuda:{device}")
    return made


def _requires_grad(self: ModuleBase, on: bool = True) -> ModuleBase:
    """Whether its parameters are trained: unfreeze() or freeze(); returns the module."""
    self.unfreeze() if on else self.freeze()
    return self


def _get_submodule(self: ModuleBase, path: str) -> ModuleBase:
    """The part at a path of names, find() as PyTorch calls it."""
    return self.find(path)


class HookHandle:
    """A hook around the calls of a module."""

    def __init__(self, remove: Callable[[], Any]):
        self._remove: Callable[[], Any] | None = remove

    def __repr__(self) -> str:
        return f"<hook of a module{'' if self._remove else ', removed'}>"

    def remove(self) -> None:
        """Takes the hook away; once is enough."""
        if self._remove is not None:
            self._remove()
            self._remove = None


def _looks_on(hook: Callable[..., Any]) -> Callable[..., None]:
    def call(*arguments: Any) -> None:
        if hook(*arguments) is not None:
            raise TypeError("[module] expected a hook of a layer of the library to return None: it looks on, and changes nothing")

    return call


def _forward_pre_hook(self: ModuleBase, hook: Callable[..., Any]) -> HookHandle:
    """Calls hook(module, inputs) before every call."""
    number = self._add_hooks(_looks_on(lambda inputs: hook(self, inputs)), None)
    return HookHandle(lambda: self._remove_hooks(number))


def _forward_hook(self: ModuleBase, hook: Callable[..., Any]) -> HookHandle:
    """Calls hook(module, inputs, outputs) after every call."""
    number = self._add_hooks(None, _looks_on(lambda inputs, outputs: hook(self, inputs, outputs)))
    return HookHandle(lambda: self._remove_hooks(number))


ModuleBase.named_children = _named_children
ModuleBase.named_modules = _named_modules
ModuleBase.modules = _modules
ModuleBase.apply = _apply
ModuleBase.zero_grad = _zero_grad
for _name, _dtype in (("float", "f32"), ("double", "f64"), ("half", "f16")):
    setattr(ModuleBase, _name, _in_dtype(_name, _dtype))
ModuleBase.cpu = _cpu
ModuleBase.cuda = _cuda
ModuleBase.requires_grad_ = _requires_grad
ModuleBase.get_submodule = _get_submodule
ModuleBase.register_forward_pre_hook = _forward_pre_hook
ModuleBase.register_forward_hook = _forward_hook
