"""Metrics by their names in job files: metrics.Accuracy(), metrics.TopK(k=3)."""

from __future__ import annotations

import json as _json
from typing import TYPE_CHECKING, Any

from . import _starling
from ._kinds import camel as _camel
from ._kinds import describe as _describe

if TYPE_CHECKING:
    from ._typed_metrics import *  # noqa: F403


class Metric:
    """A figure over batches: update(prediction, target) for each, then value."""

    _kind = ""

    def __init__(self, **options: Any):
        self._base = _starling._make_metric(self._kind, _json.dumps(options))

    def update(self, prediction: Any, target: Any, loss: float = 0.0, weight: float | None = None) -> None:
        """Adds a batch: predictions, with classes on the last axis, and labels (below 0: ignored) or numbers."""
        self._base.update(prediction, target, loss, weight)

    def __call__(self, prediction: Any, target: Any) -> float:
        """update(), then the value of all batches so far."""
        self.update(prediction, target)
        return self.value

    def compute(self) -> float:
        """value, as other packages call it."""
        return self.value

    @property
    def value(self) -> float:
        """NaN before the first batch."""
        return self._base.value

    @property
    def higher_is_better(self) -> bool:
        """Whether more of it is better."""
        return self._base.higher_is_better

    def reset(self) -> None:
        """Begins anew."""
        self._base.reset()

    def table(self, class_names: list[str] | tuple[str, ...] = ()) -> str:
        """Details as text, such as a confusion matrix."""
        return self._base.table(list(class_names))

    def merge(self, other: Metric) -> None:
        """Adds what another one of the same kind has seen."""
        self._base.join(other._base.sums())

    def __repr__(self) -> str:
        return f"<metric {self._kind}: {self.value:.6g}>"


for _name, (_doc, _schema, _) in _starling._metric_kinds().items():
    _class = _camel(_name)
    globals()[_class] = type(_class, (Metric,), {"_kind": _name, "__doc__": _describe(_doc, _schema), "__module__": __name__})
