"""Optimizers, by the rules that job files name."""

from __future__ import annotations

import json as _json
from typing import TYPE_CHECKING, Any, Iterable

import numpy as _np

from . import _starling
from ._starling import clip_norm as clip_norm  # noqa: F401
from ._kinds import camel as _camel
from ._kinds import describe as _describe


if TYPE_CHECKING:
    from ._typed_optim import *  # noqa: F403


class Optimizer:
    """Applies gradients to parameters. step() updates and empties the gradients, eagerly or inside compile()."""

    _kind = ""

    def __init__(self, parameters: Iterable[Any], lr: float | None = None, **options: Any):
        if "betas" in options and "beta1" not in options and "beta2" not in options:
            options["beta1"], options["beta2"] = options.pop("betas")  # PyTorch's word
        if lr is not None:
            options["lr"] = lr
        self._told = dict(options)
        self.base = _starling._make_optimizer(self._kind, list(parameters), _json.dumps(options))

    def step(self) -> None:
        """Updates every parameter that has a gradient, and empties the gradients."""
        self.base.step()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Empties the gradients; step() does so itself. set_to_none=False: they are zeros then, so that the next step uses them."""
        if not set_to_none:
            for parameter in self.base.parameters():
                if parameter.grad is not None:
                    parameter.grad = _starling.zeros_like(parameter.grad)
            return
        for parameter in self.base.parameters():
            parameter.grad = None

    @property
    def lr(self) -> float:
        """The learning rate; setting it acts on compiled steps, too."""
        return float(str(_np.float32(self.base.lr)))  # kept as f32: the shortest number that is the same there

    @lr.setter
    def lr(self, value: float) -> None:
        self.base.lr = value

    def __repr__(self) -> str:
        options = {**self._told, "lr": self.lr}
        told = ", ".join(f"{name}={value!r}" for name, value in options.items())
        return f"{type(self).__name__}({len(self.base.parameters())} parameters, {told})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(
            f"[optim] expected the state of {type(self).__name__}, state_dict() and load_state_dict(), got a copy or pickle of itself, whose parameters "
            "are another network's"
        )

    def parameters(self) -> list[Any]:
        """The parameters, of all groups."""
        return self.base.parameters()

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """Groups of parameters with params, lr, lr_scale and weight_decay, as they are now; the rate is set by `lr`."""
        return self.base.groups()

    def state_dict(self) -> dict[str, Any]:
        """What it keeps between steps, by name: the tensors themselves."""
        return self.base.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Copies such a state into its own."""
        self.base.load_state_dict(state)


_NAMES = {"sgd": "SGD", "rmsprop": "RMSprop", "adamw": "AdamW", "lars": "LARS", "lamb": "LAMB"}
for _name, (_doc, _schema, _) in _starling._optimizer_kinds().items():
    _class = _NAMES.get(_name, _camel(_name))
    globals()[_class] = type(_class, (Optimizer,), {"_kind": _name, "__doc__": _describe(_doc, _schema), "__module__": __name__})
