"""Sorting and what comes of it."""

import torch


def _topk(x, a):
    values, indices = torch.topk(x, a["k"], a["axis"], a["largest"], True)
    if a["sorted"]:
        return [values, indices]
    order = torch.sort(indices, a["axis"]).values  # here: as they stand in x
    return [torch.gather(x, a["axis"], order), order]


OPS = {
    "sort": lambda x, a: list(torch.sort(x[0], dim=a["axis"], descending=a["descending"], stable=True)),
    "argsort": lambda x, a: [torch.argsort(x[0], dim=a["axis"], descending=a["descending"], stable=True)],
    "topk": lambda x, a: _topk(x[0], a),
    "unique": lambda x, a: list(torch.unique(x[0], return_inverse=True, return_counts=True)),
}
