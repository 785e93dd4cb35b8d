"""Where runs show their progress: the terminal, Python's sys.stderr where that is another place, or a notebook."""

from __future__ import annotations

import sys
from typing import Any, Callable

_COLUMNS = 100  # of a line in a notebook


def place(quiet: bool) -> tuple[str, int, Callable[[str], Any] | None]:
    """(mode, columns or 0 for the terminal's, write or None for standard error)."""
    if quiet:
        return "off", 0, _Warnings(sys.stderr)
    if _in_notebook():
        return "bar", _COLUMNS, _NotebookLine(sys.stderr)
    return ("auto", 0, None) if _is_standard_error(sys.stderr) else ("plain", 0, _Writer(sys.stderr))


def _in_notebook() -> bool:
    kernel: Any = sys.modules.get("ipykernel.zmqshell")
    shell: Any = sys.modules.get("IPython")
    return kernel is not None and shell is not None and isinstance(shell.get_ipython(), kernel.ZMQInteractiveShell)


def _is_standard_error(stream: Any) -> bool:
    try:
        return bool(stream.fileno() == 2)
    except (AttributeError, OSError, ValueError):
        return False


class _Writer:
    def __init__(self, stream: Any):
        self._stream = stream

    def __call__(self, text: str) -> None:
        if self._stream is not None:
            self._stream.write(text)
            self._stream.flush()


class _Warnings(_Writer):
    """Of what a quiet run tells the warnings alone."""

    def __call__(self, text: str) -> None:
        told = "".join(line for line in text.splitlines(keepends=True) if "warning" in line)
        if told:
            super().__call__(told)


class _NotebookLine(_Writer):
    """A line that is drawn over. Notebooks know \\r but no code that erases the rest of a line: spaces cover it."""

    _ERASE = "\x1b[K"

    def __init__(self, stream: Any):
        super().__init__(stream)
        self._drawn = 0

    def __call__(self, text: str) -> None:
        begin, erases, rest = text.partition(self._ERASE)
        if erases:
            width = len(begin.lstrip("\r"))
            begin += " " * (self._drawn - width)
            self._drawn = width
        super().__call__(begin + rest)
