"""What the namespace has, as the standard asks."""

from __future__ import annotations

from typing import Any

from .. import _starling
from . import _dtypes
from ._dtypes import KINDS, float32, int64

_NAMED = {
    name: getattr(_dtypes, name)
    for name in "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64".split()
}


class Info:
    """What __array_namespace_info__() answers with."""

    def capabilities(self) -> dict[str, Any]:
        """What the standard leaves to a library, by its names."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 8}

    def default_device(self) -> Any:
        """Where arrays lie that no device was given for."""
        return _starling.Device("cpu")

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """dtypes of arrays that none was given for, by kind."""
        return {"real floating": float32, "complex floating": None, "integral": int64, "indexing": int64}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        """dtypes by name, all or those of a kind."""
        if kind is None:
            return dict(_NAMED)
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if any(one not in KINDS for one in kinds):
            raise ValueError(f"[dtypes] expected kinds out of {', '.join(KINDS)}, got {kind!r}")
        return {name: dtype for name, dtype in _NAMED.items() if any(dtype in KINDS[one] for one in kinds)}

    def devices(self) -> list[Any]:
        """Devices that every machine has."""
        return [_starling.Device("cpu")]


def __array_namespace_info__() -> Info:
    return Info()

