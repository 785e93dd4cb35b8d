"""The namespace of the Python array API standard (version 2024.12) over starling's tensors.

    xp = x.__array_namespace__()
    y = xp.linalg.solve(a, xp.astype(b, xp.float64))

What the standard leaves open: there are no complex numbers and no fft; the default dtypes are float32 and int64.
Functions whose results have shapes that depend on values, signbit, copysign and nextafter are eager; the others work inside compile(), too.
"""

from . import linalg as linalg
from ._creation import (
    arange as arange,
    asarray as asarray,
    empty as empty,
    empty_like as empty_like,
    eye as eye,
    from_dlpack as from_dlpack,
    full as full,
    full_like as full_like,
    linspace as linspace,
    meshgrid as meshgrid,
    ones as ones,
    ones_like as ones_like,
    tril as tril,
    triu as triu,
    zeros as zeros,
    zeros_like as zeros_like,
)
from ._dtypes import (
    astype as astype,
    bool as bool,
    can_cast as can_cast,
    e as e,
    finfo as finfo,
    float32 as float32,
    float64 as float64,
    iinfo as iinfo,
    inf as inf,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    isdtype as isdtype,
    nan as nan,
    newaxis as newaxis,
    pi as pi,
    result_type as result_type,
    uint8 as uint8,
    uint16 as uint16,
    uint32 as uint32,
    uint64 as uint64,
)
from ._elementwise import *  # noqa: F403
from ._info import __array_namespace_info__ as __array_namespace_info__
from ._manipulation import *  # noqa: F403
from ._searching import *  # noqa: F403
from ._statistics import *  # noqa: F403
from .linalg import (
    matmul as matmul,
    matrix_transpose as matrix_transpose,
    tensordot as tensordot,
    vecdot as vecdot,
)

__array_api_version__ = "2024.12"
