"""Losses as modules, under PyTorch's names."""

from __future__ import annotations

from typing import Any

from . import _starling
from .nn import Module


class _Loss(Module):
    """A loss with its options: loss(prediction, target)."""

    _function = ""

    def __init__(self, *, weight: Any = None, reduction: str = "mean", **options: Any):
        super().__init__()
        self._keywords = {"weight": weight, "reduction": reduction, **options}

    def forward(self, prediction: Any, target: Any) -> Any:
        """The loss of a prediction."""
        return getattr(_starling, self._function)(prediction, target, **self._keywords)


class CrossEntropyLoss(_Loss):
    """-log softmax(logits) at the target: labels, or probabilities of the logits' shape."""

    _function = "cross_entropy"

    def __init__(self, weight: Any = None, *, ignore_index: int | None = None, reduction: str = "mean", label_smoothing: float = 0.0):
        super().__init__(weight=weight, reduction=reduction, ignore_index=ignore_index, label_smoothing=label_smoothing)


class NLLLoss(_Loss):
    """-log_probs at the labels."""

    _function = "nll"

    def __init__(self, weight: Any = None, *, ignore_index: int = -100, reduction: str = "mean"):
        super().__init__(weight=weight, reduction=reduction, ignore_index=ignore_index)


class MSELoss(_Loss):
    """(prediction - target)²"""

    _function = "mse"


class L1Loss(_Loss):
    """|prediction - target|"""

    _function = "l1"


class BCELoss(_Loss):
    """-(t log p + (1 - t) log(1 - p))"""

    _function = "bce"


class BCEWithLogitsLoss(_Loss):
    """BCELoss of sigmoid(logits), without overflow."""

    _function = "bce_with_logits"

    def __init__(self, weight: Any = None, *, reduction: str = "mean", pos_weight: Any = None):
        super().__init__(weight=weight, reduction=reduction, pos_weight=pos_weight)


class HuberLoss(_Loss):
    """½ d² up to |d| = delta, then delta · (|d| - ½ delta)."""

    _function = "huber"

    def __init__(self, *, reduction: str = "mean", delta: float = 1.0):
        super().__init__(reduction=reduction, delta=delta)


class SmoothL1Loss(_Loss):
    """½ d² / beta up to |d| = beta, then |d| - ½ beta."""

    _function = "smooth_l1"

    def __init__(self, *, reduction: str = "mean", beta: float = 1.0):
        super().__init__(reduction=reduction, beta=beta)


class KLDivLoss(_Loss):
    """t · (log t - log_probs)"""

    _function = "kl_div"

    def __init__(self, *, reduction: str = "mean", log_target: bool = False):
        super().__init__(reduction=reduction, log_target=log_target)
