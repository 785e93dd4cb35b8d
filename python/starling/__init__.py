"""Starling: tensors, gradients, compiled programs and training, on one worker or many."""

from . import _starling
from ._starling import *  # noqa: F401,F403 - functions of tensors, dtypes, constructors
from ._starling import (  # noqa: F401 - names that * leaves out or that type checkers should see
    DType,
    Device,
    Error,
    GradScope,
    SavedModel,
    Tensor,
    __version__,
    dtype,
)
from . import _methods  # noqa: F401 - gives Tensor its methods
from ._autograd import Function, enable_grad, grad, jvp, no_grad, recompute, value_and_grad, vjp
from ._names import *  # noqa: F401,F403 - names of other frameworks
from ._compile import CompiledFunction, compile
from ._save import load, save
from . import _copies  # noqa: F401 - lets modules be copied and pickled
from . import data, dist, nn, op, optim, schedules, train, zoo

float64, float32, float16, bfloat16 = _starling.f64, _starling.f32, _starling.f16, _starling.bf16
int64, int32, int16, int8 = _starling.i64, _starling.i32, _starling.i16, _starling.i8
uint64, uint32, uint16, uint8 = _starling.u64, _starling.u32, _starling.u16, _starling.u8


def cuda(index: int = 0) -> Device:
    """The GPU of this number."""
    return Device(f"cuda:{index}")


cpu = Device("cpu")
