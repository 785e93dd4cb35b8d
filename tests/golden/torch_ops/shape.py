"""Reshaping, views, slices, joining, padding and rearranging."""

import numpy
import torch

TO_END = 2**63 - 1


def _slice(x, axis, begin, end, step):
    """As Python slices, except that the largest integer stands for None: PyTorch has no negative steps."""
    index = [slice(None)] * x.dim()
    index[axis] = slice(None if begin == TO_END else begin, None if end == TO_END else end, step)
    return torch.from_numpy(x.numpy()[tuple(index)].copy())


def _slice_backward(x, a):
    places = torch.arange(int(numpy.prod(a["shape"]))).reshape(a["shape"])
    taken = _slice(places, a["axis"], a["begin"], a["end"], a["step"])
    out = torch.zeros(places.numel(), dtype=x.dtype)
    out[taken.reshape(-1)] = x.reshape(-1)
    return out.reshape(a["shape"])


def _pad(x, a):
    rank = x.dim()
    pairs = list(zip(a["before"] or [0] * rank, a["after"] or [0] * rank))
    mode = {"constant": "constant", "reflect": "reflect", "edge": "edge"}[a["mode"]]
    more = {"constant_values": a["value"]} if mode == "constant" else {}
    return torch.from_numpy(numpy.pad(x.numpy(), pairs, mode=mode, **more)) if rank else x


def _squeeze(x, axes):
    return torch.squeeze(x, tuple(axes)) if axes else torch.squeeze(x)


def _unsqueeze(x, axes):
    rank = x.dim() + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        x = x.unsqueeze(axis)
    return x


def _permute(x, a):
    return x.permute(a["order"] or list(reversed(range(x.dim()))))


def _tile(x, reps):
    return torch.tile(x, tuple(reps)) if reps else x


OPS = {
    "reshape": lambda x, a: [x[0].reshape(a["shape"])],
    "transpose": lambda x, a: [_permute(x[0], a)],
    "permute": lambda x, a: [_permute(x[0], a)],
    "broadcast_to": lambda x, a: [torch.broadcast_to(x[0], a["shape"])],
    "concat": lambda x, a: [torch.cat(x, a["axis"])],
    "stack": lambda x, a: [torch.stack(x, a["axis"])],
    "slice": lambda x, a: [_slice(x[0], a["axis"], a["begin"], a["end"], a["step"])],
    "slice_backward": lambda x, a: [_slice_backward(x[0], a)],
    "split": lambda x, a: [torch.tensor_split(x[0], a["count"], a["axis"])[a["index"]]],
    "squeeze": lambda x, a: [_squeeze(x[0], a["axes"])],
    "unsqueeze": lambda x, a: [_unsqueeze(x[0], a["axes"])],
    "diagonal": lambda x, a: [torch.diagonal(x[0], a["offset"], a["axis1"], a["axis2"])],
    "diag_embed": lambda x, a: [torch.diag_embed(x[0], a["offset"], a["axis1"], a["axis2"])],
    "pad": lambda x, a: [_pad(x[0], a)],
    "tile": lambda x, a: [_tile(x[0], a["reps"])],
    "repeat": lambda x, a: [torch.repeat_interleave(x[0], a["repeats"], a["axis"])],
    "flip": lambda x, a: [torch.flip(x[0], a["axes"])],
    "roll": lambda x, a: [torch.roll(x[0], a["shifts"], a["axes"]) if a["shifts"] else x[0]],
    "tril": lambda x, a: [torch.tril(x[0], a["diagonal"])],
    "triu": lambda x, a: [torch.triu(x[0], a["diagonal"])],
}
