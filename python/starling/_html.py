"""What notebooks show of networks and runs."""

from __future__ import annotations

import html
from typing import Any, Iterator

from ._starling import ModuleBase, Run


def _rows(module: ModuleBase, path: str, depth: int) -> Iterator[str]:
    cells = (path or type(module).__name__, type(module).__name__, str(module.parameter_count))
    yield "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>"
    for name, child in module.children.items() if depth else ():
        yield from _rows(child, f"{path}.{name}" if path else name, depth - 1)


def of_module(module: Any) -> str:
    """A table of a network's parts with their kinds and numbers of parameters, three levels deep."""
    return "<table><tr><th>part</th><th>kind</th><th>parameters</th></tr>" + "".join(_rows(module, "", 3)) + "</table>"


def _of_run(run: Run) -> str:
    """Shown by notebooks, inside a callback: how far the run is."""
    told = {"step": run.step, "epoch": run.epoch, "samples": run.samples, "loss": f"{run.loss:.6g}", "lr": f"{run.lr:.6g}"}
    told.update({name: f"{value:.6g}" for name, value in run.metrics.items()})
    return "<table>" + "".join(f"<tr><td>{html.escape(key)}</td><td>{value}</td></tr>" for key, value in told.items()) + "</table>"


setattr(ModuleBase, "_repr_html_", of_module)
setattr(Run, "_repr_html_", _of_run)
