"""Names that a module of the package offers: what dir() and import * show."""

from __future__ import annotations

import types
from typing import Any

_HELPERS = ("typing", "collections.abc", "contextlib", "types", "__future__")


def tell(module: types.ModuleType) -> None:
    """Lets dir() and import * have the public names alone."""
    names = public(vars(module))
    setattr(module, "__all__", names)
    setattr(module, "__dir__", lambda: names)


def public(names: dict[str, Any]) -> list[str]:
    """Of the names of a module those that are for users: not what it has imported for itself."""

    def is_ours(name: str, value: Any) -> bool:
        if name.startswith("_") or name in ("TYPE_CHECKING", "annotations"):
            return False
        if isinstance(value, types.ModuleType):
            return value.__name__.startswith("starling.")
        return getattr(value, "__module__", None) not in _HELPERS and type(value).__module__ not in _HELPERS

    return sorted(name for name, value in names.items() if is_ours(name, value))
