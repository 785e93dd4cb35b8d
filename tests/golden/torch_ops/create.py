"""Tensors made of numbers alone, and conversions."""

import torch

DTYPES = {"f64": torch.double, "i64": torch.int64, "i32": torch.int32, "u8": torch.uint8, "i8": torch.int8,
          "i16": torch.int16, "bool": torch.bool, "f32": torch.double, "f16": torch.half, "bf16": torch.bfloat16}


def _cast(x, dtype):
    y = x.to(DTYPES[dtype])
    return y.double() if y.is_floating_point() else y


OPS = {
    "full": lambda x, a: [torch.full(a["shape"], a["value"], dtype=DTYPES[a["dtype"]])],
    "cast": lambda x, a: [_cast(x[0], a["dtype"])],
    "arange": lambda x, a: [torch.arange(a["start"], a["end"], a["step"], dtype=DTYPES[a["dtype"]])],
    "linspace": lambda x, a: [torch.linspace(a["start"], a["end"], a["count"], dtype=torch.double)],
    "eye": lambda x, a: [torch.eye(a["rows"], a["cols"], dtype=DTYPES[a["dtype"]])],
    "meshgrid": lambda x, a: list(torch.meshgrid(*x, indexing=a["indexing"])),
}
