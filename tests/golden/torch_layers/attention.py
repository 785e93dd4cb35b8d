"""Attention and transformers."""

import math

import torch
from torch import nn

SELF = {"qkv.weight": "in_proj_weight", "qkv.bias": "in_proj_bias", "out.weight": "out_proj.weight",
        "out.bias": "out_proj.bias"}


def cross_names(width, own="", name=""):
    """Projections of one matrix each, cut out of PyTorch's."""
    names = {f"{own}out.weight": f"{name}out_proj.weight", f"{own}out.bias": f"{name}out_proj.bias"}
    for i, part in enumerate("qkv"):
        names[f"{own}{part}.weight"] = (f"{name}in_proj_weight", i * width, (i + 1) * width)
        names[f"{own}{part}.bias"] = (f"{name}in_proj_bias", i * width, (i + 1) * width)
    return names


def self_call(module, x, mask=None):
    """Our masks say what may be seen, PyTorch's what may not, for each sample and head."""
    if mask is not None:
        heads = module.num_heads
        mask = ~mask.expand(x.shape[0], heads, x.shape[1], x.shape[1]).reshape(-1, x.shape[1], x.shape[1])
    return module(x, x, x, attn_mask=mask, need_weights=False)[0]


def encoder_names(prefix="", own=""):
    names = {f"{own}attention.{key}": f"{prefix}self_attn.{name}" for key, name in SELF.items()}
    for i, norm in enumerate(("norm1", "norm2")):
        names |= {f"{own}{norm}.{word}": f"{prefix}{norm}.{word}" for word in ("weight", "bias")}
    for i in (1, 2):
        names |= {f"{own}think.fc{i}.{word}": f"{prefix}linear{i}.{word}" for word in ("weight", "bias")}
    return names


def decoder_names(width, prefix="", own=""):
    names = encoder_names(prefix, own) | cross_names(width, f"{own}cross.", f"{prefix}multihead_attn.")
    return names | {f"{own}norm3.{word}": f"{prefix}norm3.{word}" for word in ("weight", "bias")}


def norm_names():
    return {f"norm.{word}": f"norm.{word}" for word in ("weight", "bias")}


def causal(size):
    return nn.Transformer.generate_square_subsequent_mask(size).double()


def rotary(x, base=10000.0):
    """[.., t, d] by halves."""
    t, half = x.shape[-2], x.shape[-1] // 2
    angle = torch.arange(t).double()[:, None] * base ** (-torch.arange(half).double() / half)
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()), -1)


class Turned(nn.Module):
    """Self-attention with rotary places, written out."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        n, t, width = x.shape
        q, k, v = (part.reshape(n, t, self.heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        y = nn.functional.scaled_dot_product_attention(rotary(q), rotary(k), v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(n, t, width))


class Places(nn.Module):
    def __init__(self, tokens, width):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(tokens, width))

    def forward(self, x):
        return x + self.weight[: x.shape[1]]


class Sines(nn.Module):
    def forward(self, x):
        t, width = x.shape[1:]
        rate = torch.exp(torch.arange(0, width, 2).double() * (-math.log(10000.0) / width))
        angle = torch.arange(t).double()[:, None] * rate
        return x + torch.stack((angle.sin(), angle.cos()), -1).reshape(t, -1)[:, :width]


class Turn(nn.Module):
    def forward(self, x):
        return rotary(x)


def add_cases(file):
    x, memory = torch.randn(2, 5, 4), torch.randn(2, 3, 4)
    seen = torch.tensor([5, 3])[:, None, None, None] > torch.arange(5)
    file.add("self_attention", "{heads: 2}", nn.MultiheadAttention(4, 2, batch_first=True), [x], SELF, call=self_call)
    file.add("self_attention", "{heads: 2}", nn.MultiheadAttention(4, 2, batch_first=True), [x, seen], SELF, samples=1,
             call=self_call)
    file.add("self_attention", "{heads: 2, causal: true}", nn.MultiheadAttention(4, 2, batch_first=True), [x], SELF,
             call=lambda m, t: m(t, t, t, attn_mask=causal(5), is_causal=True, need_weights=False)[0])
    file.add("self_attention", "{heads: 2, causal: true, rotary: true}", Turned(4, 2), [x])
    file.add("multi_head_attention", "{heads: 2}", nn.MultiheadAttention(4, 2, batch_first=True), [x, memory],
             cross_names(4), call=lambda m, q, k: m(q, k, k, need_weights=False)[0])
    wide = nn.MultiheadAttention(4, 2, kdim=3, vdim=6, batch_first=True)
    names = {key: name for key, name in cross_names(4).items() if not key.endswith("weight") or key.startswith("out")}
    names |= {f"{part}.weight": f"{part}_proj_weight" for part in "qkv"}
    file.add("multi_head_attention", "{heads: 2}", wide, [x, torch.randn(2, 3, 3), torch.randn(2, 3, 6)], names,
             call=lambda m, q, k, v: m(q, k, v, need_weights=False)[0])
    seen_memory = torch.tensor([1, 3])[:, None, None, None] > torch.arange(3)
    file.add("multi_head_attention", "{heads: 2}", nn.MultiheadAttention(4, 2, batch_first=True),
             [x, memory, memory, seen_memory], cross_names(4), samples=2,
             call=lambda m, q, k, v, mask: m(q, k, v, key_padding_mask=~mask[:, 0, 0], need_weights=False)[0])

    for options, first, activation in (("{heads: 2}", True, "gelu"),
                                       ("{heads: 2, norm_first: false, activation: relu, hidden: 6}", False, "relu")):
        hidden = 6 if "hidden" in options else 16
        layer = nn.TransformerEncoderLayer(4, 2, hidden, 0.0, activation, batch_first=True, norm_first=first)
        file.add("transformer_encoder_layer", options, layer, [x], encoder_names())
        decoder = nn.TransformerDecoderLayer(4, 2, hidden, 0.0, activation, batch_first=True, norm_first=first)
        file.add("transformer_decoder_layer", options, decoder, [x, memory], decoder_names(4),
                 call=lambda m, t, s: m(t, s, tgt_mask=causal(5), tgt_is_causal=True))
    layer = nn.TransformerEncoderLayer(4, 2, 16, 0.0, "gelu", batch_first=True, norm_first=True)
    stack = nn.TransformerEncoder(layer, 2, nn.LayerNorm(4), enable_nested_tensor=False)
    names = norm_names()
    for i in range(2):
        names |= encoder_names(f"layers.{i}.", f"layer{i + 1}.")
    file.add("transformer_encoder", "{heads: 2, layers: 2}", stack, [x, seen], names, samples=1,
             call=lambda m, t, mask: m(t, src_key_padding_mask=~mask[:, 0, 0]))
    layer = nn.TransformerDecoderLayer(4, 2, 16, 0.0, "gelu", batch_first=True, norm_first=True)
    stack = nn.TransformerDecoder(layer, 2, nn.LayerNorm(4))
    names = norm_names()
    for i in range(2):
        names |= decoder_names(4, f"layers.{i}.", f"layer{i + 1}.")
    file.add("transformer_decoder", "{heads: 2, layers: 2}", stack, [x, memory, None, seen_memory], names, samples=2,
             call=lambda m, t, s, _, mask: m(t, s, tgt_mask=causal(5), tgt_is_causal=True,
                                             memory_key_padding_mask=~mask[:, 0, 0]))
    file.add("learned_positions", "{tokens: 7}", Places(7, 4), [x])
    file.add("sinusoidal_positions", "{}", Sines(), [x])
    file.add("rotary", "{}", Turn(), [x])
