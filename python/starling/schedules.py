"""Schedules of the learning rate, by the names that job files use: schedules.Cosine(optimizer, steps=1000)."""

from __future__ import annotations

import json as _json
from typing import TYPE_CHECKING, Any

from . import _starling
from ._kinds import camel as _camel
from ._kinds import describe as _describe


if TYPE_CHECKING:
    from ._typed_schedules import *  # noqa: F403


class Schedule:
    """Sets an optimizer's learning rate, as a factor on the one it had: call step() after each step of the optimizer.

    steps: length of the whole run, for schedules that need it; steps_per_epoch: for those that count epochs.
    """

    _kind = ""

    def __init__(self, optimizer: Any, steps: int = 0, steps_per_epoch: int = 0, **options: Any):
        if "step" in options and not steps:
            raise TypeError(f"[{self._kind}] expected steps=, the length of the run, got step={options['step']!r}")
        self._base = _starling._make_schedule(self._kind, _json.dumps(options))
        self._told = options
        self._optimizer = optimizer
        self._rate = optimizer.base.lr
        self._steps = steps
        self._steps_per_epoch = steps_per_epoch
        self._step = 0
        self.factor(1)  # what it needs and was not told is missed now
        self._apply()

    def factor(self, step: int) -> float:
        """The factor for the step after this many."""
        try:
            return self._base.factor(step, self._steps, self._steps_per_epoch)
        except _starling.Error as error:
            if "to know the steps" not in str(error) and "steps of an epoch" not in str(error):
                raise
            name = type(self).__name__
            raise ValueError(f"{error}: schedules.{name}(optimizer, steps=1000), or steps_per_epoch= where it counts epochs") from None

    @property
    def lr(self) -> float:
        """The rate that it has set."""
        rate: float = self._optimizer.lr
        return rate

    def __repr__(self) -> str:
        told = {**({"steps": self._steps} if self._steps else {}), **self._told}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in told.items())}): step {self._step}, lr {self.lr!r}"

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("[schedule] expected its state, state_dict() and load_state_dict(), got a copy or pickle of itself, which drives an optimizer")

    def step(self) -> None:
        """One more step of the optimizer is done."""
        self._step += 1
        self._apply()

    def observe(self, metric: float) -> None:
        """An evaluation's metric, for schedules that wait for it to stop falling."""
        self._base.observe(metric)
        self._apply()

    def _apply(self) -> None:
        self._optimizer.lr = self._rate * self.factor(self._step)

    def state_dict(self) -> dict[str, Any]:
        """Where it is: numbers, for load_state_dict()."""
        return {"step": self._step, "rate": self._rate, "observed": self._base.state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from such a state."""
        self._step, self._rate = state["step"], state["rate"]
        self._base.restore(state["observed"])
        self._apply()


for _name, (_doc, _schema, _) in _starling._schedule_kinds().items():
    _class = _camel(_name)
    globals()[_class] = type(_class, (Schedule,), {"_kind": _name, "__doc__": _describe(_doc, _schema), "__module__": __name__})
