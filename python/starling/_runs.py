"""Summaries of runs: the dict that summary.json holds, shown as a table by notebooks."""

from __future__ import annotations

import html
from typing import Any


class Summary(dict[str, Any]):
    """What a run ended with: steps, metrics, the hash of its weights and more."""

    def _repr_html_(self) -> str:
        """Shown by notebooks."""
        return "<table>" + "".join(_rows(self)) + "</table>"


def _rows(values: dict[str, Any], path: str = "") -> Any:
    for key, value in values.items():
        name = f"{path}.{key}" if path else key
        if isinstance(value, dict):
            yield from _rows(value, name)
        else:
            shown = f"{value:.6g}" if isinstance(value, float) else str(value)
            yield f"<tr><td>{html.escape(name)}</td><td>{html.escape(shown)}</td></tr>"
