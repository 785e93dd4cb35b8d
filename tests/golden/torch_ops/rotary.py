"""Rotary embedding as a product of complex numbers; PyTorch has no function for it."""

import torch


def rotary(inputs, attrs):
    x = inputs[0]
    steps, d = x.shape[-2:]
    base, offset = attrs.get("base", 10000.0), attrs.get("offset", 0)
    rates = base ** (-2.0 * torch.arange(d // 2, dtype=torch.double) / max(d, 1))
    angles = (offset + torch.arange(steps, dtype=torch.double))[:, None] * rates
    turn = torch.polar(torch.ones_like(angles), -angles if attrs.get("inverse") else angles)
    if attrs.get("interleaved"):
        pairs = torch.complex(x[..., 0::2].contiguous(), x[..., 1::2].contiguous()) * turn
        return [torch.stack([pairs.real, pairs.imag], -1).reshape(x.shape)]
    pairs = torch.complex(x[..., :d // 2].contiguous(), x[..., d // 2:].contiguous()) * turn
    return [torch.cat([pairs.real, pairs.imag], -1)]


OPS = {"rotary": rotary}
