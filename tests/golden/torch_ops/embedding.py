"""Embeddings, bags of them, and row-sparse tensors."""

import torch
import torch.nn.functional as F


def embedding(inputs, attrs):
    indices, weight = inputs
    return [weight[indices]]


def embedding_backward(inputs, attrs):
    dy, indices = inputs
    tail = dy.shape[indices.dim():]
    rows = indices.reshape(-1)
    values = dy.reshape(rows.numel(), -1) if dy.numel() else dy.new_zeros(rows.numel(), tail.numel())
    out = dy.new_zeros(attrs["rows"], max(tail.numel(), 0))
    out.index_add_(0, rows, values)
    if attrs["padding"] >= 0:
        out[attrs["padding"]] = 0
    return [out.reshape(attrs["rows"], *tail)]


def sgd_update_rows(inputs, attrs):
    w, v, rows, values, lr = inputs
    w, v = w.clone(), v.clone()
    g = torch.zeros_like(w).index_add_(0, rows, values)
    touched = rows.unique()
    g = g[touched] + attrs["weight_decay"] * w[touched]
    v[touched] = attrs["momentum"] * v[touched] + g
    w[touched] -= lr * (g + attrs["momentum"] * v[touched] if attrs["nesterov"] else v[touched])
    return [w, v]


def coalesce_rows(inputs, attrs):
    rows, values = inputs
    size = (int(rows.max()) + 1 if rows.numel() else 1, *values.shape[1:])
    merged = torch.sparse_coo_tensor(rows[None], values, size).coalesce()
    return [merged.indices()[0], merged.values()]


OPS = {
    "embedding": embedding,
    "embedding_backward": embedding_backward,
    "sgd_update_rows": sgd_update_rows,
    "coalesce_rows": coalesce_rows,
    "hold": lambda inputs, attrs: [inputs[0]],
}
