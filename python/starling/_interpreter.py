"""Interpreters that the package cannot run on are refused before the compiled part is loaded, which could only crash."""

from __future__ import annotations

import sysconfig


def check() -> None:
    """Refuses free-threaded interpreters by name."""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise ImportError(
            "[starling] expected a Python with a global interpreter lock, got a free-threaded one (3.13t, 3.14t, …): starling "
            "shares objects between threads under that lock; use the plain build of the same version"
        )


check()
