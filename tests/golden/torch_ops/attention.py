"""Attention against torch.nn.functional.scaled_dot_product_attention."""

import math

import torch
import torch.nn.functional as F


def scores(q, k, mask, attrs):
    scale = attrs.get("scale", 0) or 1 / math.sqrt(max(q.shape[-1], 1))
    x = q @ k.transpose(-1, -2) * scale
    if mask is not None:
        x = x.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else x + mask
    if attrs.get("causal"):
        x = x.masked_fill(~torch.ones(x.shape[-2:], dtype=torch.bool).tril(), -math.inf)
    return x, scale


def attention(inputs, attrs):
    q, k, v = inputs[:3]
    mask = inputs[3] if len(inputs) > 3 else None
    lse = torch.logsumexp(scores(q, k, mask, attrs)[0], -1)
    # PyTorch takes a mask or a causal one, not both.
    both = mask
    if attrs.get("causal"):
        causal = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
        if mask is None:
            both = causal
        else:
            both = mask & causal if mask.dtype == torch.bool else mask.expand(
                q.shape[:-1] + k.shape[-2:-1]).masked_fill(~causal, -math.inf)
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=both, scale=attrs.get("scale", 0) or None)
    seen = ~torch.isinf(lse)
    return [torch.where(seen[..., None], y, 0.0), torch.where(seen, lse, 0.0)]


def attention_backward(inputs, attrs):
    dy, dlse, q, k, v, y, lse = inputs[:7]
    x, scale = scores(q, k, inputs[7] if len(inputs) > 7 else None, attrs)
    p = torch.exp(x - lse[..., None])
    ds = scale * p * (dy @ v.transpose(-1, -2) - ((dy * y).sum(-1) - dlse)[..., None])
    return [ds @ k, ds.transpose(-1, -2) @ q, p.transpose(-1, -2) @ dy]


OPS = {"scaled_dot_product_attention": attention, "scaled_dot_product_attention_backward": attention_backward}
