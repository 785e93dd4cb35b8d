"""Starling: tensors, gradients, compiled programs and training, on one worker or many."""

from . import _interpreter  # noqa: F401 - refuses interpreters that the compiled part cannot run on
from . import _starling
from ._starling import *  # noqa: F401,F403 - functions of tensors, dtypes, constructors
from ._starling import (  # noqa: F401 - names that * leaves out or that type checkers should see
    DType as DType,
    Device as Device,
    ArgumentError as ArgumentError,
    Error as Error,
    GradScope as GradScope,
    SavedModel as SavedModel,
    Tensor as Tensor,
    __version__ as __version__,
    dtype as dtype,
)
from . import _signatures

globals().update(_signatures.functions_of_attributes(vars(_starling), _starling.all_ops()))
from . import _methods  # noqa: F401 - gives Tensor its methods
from . import _numpy  # noqa: F401 - functions of NumPy take tensors
from ._autograd import Function as Function, enable_grad as enable_grad, no_grad as no_grad, recompute as recompute
from ._autograd import grad as grad, hessian_vector_product as hessian_vector_product, jvp as jvp, value_and_grad as value_and_grad, vjp as vjp
from ._functions import *  # noqa: F401,F403 - names that are made of others
from ._names import *  # noqa: F401,F403 - names of other frameworks
from ._compile import CompiledFunction as CompiledFunction, compile as compile
from .control import cond as cond, scan as scan, while_loop as while_loop
from . import _copies, _html, _public  # noqa: F401 - lets modules be copied and pickled; what notebooks show
from ._save import load as load, save as save, save_model as save_model
from . import control as control, data as data, dist as dist, graph as graph, metrics as metrics, nn as nn, op as op
from . import optim as optim, schedules as schedules, train as train, zoo as zoo

float64, float32, float16, bfloat16 = _starling.f64, _starling.f32, _starling.f16, _starling.bf16
int64, int32, int16, int8 = _starling.i64, _starling.i32, _starling.i16, _starling.i8
uint64, uint32, uint16, uint8 = _starling.u64, _starling.u32, _starling.u16, _starling.u8

for _module in (control, data, dist, graph, metrics, nn, optim, schedules, train, zoo):
    _public.tell(_module)
del _module


def cuda(index: int = 0) -> Device:
    """The GPU of this number."""
    return Device(f"cuda:{index}")


cpu = Device("cpu")
