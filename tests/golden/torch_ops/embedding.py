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


def bags_of(operands):
    """The entries of every bag, and the scale of every entry, from (indices, offsets?, scale?)."""
    indices, rest = operands[0], list(operands[1:])
    if indices.dim() == 2:
        n = indices.shape[1]
        bags = [range(b * n, (b + 1) * n) for b in range(indices.shape[0])]
    else:
        ends = rest[0].tolist()[1:] + [indices.numel()]
        bags = [range(begin, end) for begin, end in zip(rest.pop(0).tolist(), ends)]
    scale = rest[0].reshape(-1) if rest else torch.ones(indices.numel(), dtype=torch.float64)
    return indices.reshape(-1), bags, scale


def embedding_bag(inputs, attrs):
    weight, indices, *rest = inputs
    if weight.dim() == 2 and weight.shape[1] > 0 and indices.numel() > 0:
        offsets = rest[0] if indices.dim() == 1 else None
        scale = rest[-1] if rest and rest[-1].is_floating_point() else None
        padding = attrs["padding"] if attrs["padding"] >= 0 else None
        return [F.embedding_bag(indices, weight, offsets, mode="mean" if attrs["mean"] else "sum",
                                per_sample_weights=scale, padding_idx=padding)]
    return bag_reduce([weight[indices.reshape(-1)], indices, *rest], attrs)


def bag_reduce(inputs, attrs):
    entries, *rest = inputs
    indices, bags, scale = bags_of(rest)
    out = []
    for bag in bags:
        kept = [i for i in bag if indices[i] != attrs["padding"]]
        total = sum((scale[i] * entries[i] for i in kept), torch.zeros(entries.shape[1:], dtype=entries.dtype))
        out.append(total / max(len(kept), 1) if attrs["mean"] else total)
    return [torch.stack(out) if out else entries.new_zeros(0, *entries.shape[1:])]


def bag_spread(inputs, attrs):
    dy, *rest = inputs
    indices, bags, scale = bags_of(rest)
    out = dy.new_zeros(indices.numel(), *dy.shape[1:])
    for b, bag in enumerate(bags):
        kept = [i for i in bag if indices[i] != attrs["padding"]]
        for i in kept:
            out[i] = dy[b] / len(kept) if attrs["mean"] else scale[i] * dy[b]
    return [out]


def embedding_bag_max(inputs, attrs):
    weight, *rest = inputs
    indices, bags, _ = bags_of(rest)
    values = weight.new_zeros(len(bags), *weight.shape[1:])
    chosen = torch.full(values.shape, -1, dtype=torch.int64)
    for b, bag in enumerate(bags):
        kept = torch.tensor([i for i in bag if indices[i] != attrs["padding"]], dtype=torch.int64)
        if kept.numel() and weight[0].numel():
            best = weight[indices[kept]].max(dim=0)
            first = (weight[indices[kept]] == best.values).to(torch.int64).argmax(dim=0)
            values[b], chosen[b] = best.values, kept[first]
    return [values, chosen]


def bag_place(inputs, attrs):
    dy, chosen = inputs
    out = dy.new_zeros(attrs["entries"] + 1, *dy.shape[1:])  # the last one takes what was chosen from nowhere
    return [out.scatter_add(0, torch.where(chosen < 0, attrs["entries"], chosen), dy)[:-1]]


def bag_pick(inputs, attrs):
    entries, chosen = inputs
    padded = torch.cat([entries, entries.new_zeros(1, *entries.shape[1:])])
    return [padded.gather(0, torch.where(chosen < 0, entries.shape[0], chosen))]


OPS = {
    "embedding": embedding,
    "embedding_backward": embedding_backward,
    "embedding_bag": embedding_bag,
    "embedding_bag_max": embedding_bag_max,
    "bag_reduce": bag_reduce,
    "bag_spread": bag_spread,
    "bag_place": bag_place,
    "bag_pick": bag_pick,
    "sgd_update_rows": sgd_update_rows,
    "coalesce_rows": coalesce_rows,
    "hold": lambda inputs, attrs: [inputs[0]],
}
