"""Graphs built by hand, as in TensorFlow 1, and sessions that run parts of them.

with graph.Builder() as b:
    x = b.placeholder("x", "f32", (64, 784))
    w = b.variable("w", starling.normal((784, 10), stddev=0.01))
    loss = b.name("loss", (x @ w).square().mean())
    b.assign(w, w - 0.1 * b.gradients(loss, [w])[0], "train")
session = graph.Session(b.graph)
session.run("loss", {"x": array}, targets=["train"])
"""

from __future__ import annotations

import html
from typing import Any, Iterable, Mapping

from . import _starling
from ._starling import Graph as Graph, Target as Target  # noqa: F401


class Builder(_starling.BuilderBase):
    """Inside of its 'with' block all ops of this thread are added to the graph; they return edges, without values."""

    graph: Graph

    def __enter__(self) -> Builder:
        self._begin()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            self.graph = self._finish()
        else:
            self._drop()


class Session:
    """Runs parts of a graph: only what the fetches and targets need. Any edge can be fed and fetched, by handle or name.

    Variables live as long as the session. Several threads may call run() at once.
    """

    def __init__(self, graph: Graph | str):
        self._base = _starling.SessionBase(_starling._parse_graph(graph) if isinstance(graph, str) else graph)

    def __repr__(self) -> str:
        return f"<session of a graph with the variables {', '.join(self.variables()) or 'none'}>"

    def run(self, fetches: Any, feeds: Mapping[Any, Any] | None = None, targets: Iterable[Any] = ()) -> Any:
        """A tensor for one fetch, a list for a list of them; feeds are values by edge; targets run for their effect."""
        one = not isinstance(fetches, (list, tuple))
        results = self._base.run([fetches] if one else fetches, dict(feeds or {}), list(targets))
        return results[0] if one else results

    def value(self, name: str) -> _starling.Tensor:
        """A copy of a variable."""
        return self._base.value(name)

    def set(self, name: str, value: Any) -> None:
        """Overwrites a variable."""
        self._base.set(name, value)

    def variables(self) -> list[str]:
        """Names of the variables."""
        return self._base.variables()

    def reset(self) -> None:
        """Gives all variables their first values."""
        self._base.reset()


def _html(self: Graph) -> str:
    """Shown by notebooks."""
    text = str(self)
    return f"<details><summary>graph of {len(text.splitlines())} lines</summary><pre>{html.escape(text)}</pre></details>"


setattr(Graph, "_repr_html_", _html)
