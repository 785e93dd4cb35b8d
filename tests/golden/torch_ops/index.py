"""Reading and writing at places given by tensors, and by masks."""

import torch


def _scatter(x, index, source, axis):
    """PyTorch leaves open which of several elements stays; here it is the last one."""
    out = x.clone()
    for place in torch.cartesian_prod(*[torch.arange(n) for n in index.shape]).reshape(-1, index.dim()).tolist():
        target = list(place)
        target[axis] = int(index[tuple(place)])
        out[tuple(target)] = source[tuple(place)]
    return out


def _index_put(x, values, indices, accumulate):
    if accumulate:
        return x.index_put(tuple(indices), values, accumulate=True)
    out, rest = x.clone(), x.shape[len(indices):]
    flat = [index.reshape(-1) for index in indices]
    for i, value in enumerate(values.reshape(-1, *rest)):
        out[tuple(index[i] for index in flat)] = value
    return out


def _masked_gather(x, mask, size):
    chosen = torch.masked_select(x, mask)
    return torch.cat([chosen, torch.zeros(size - len(chosen), dtype=x.dtype)])


OPS = {
    "index_range": "checks its operand, then gives it back",
    "gather": lambda x, a: [torch.gather(x[0], a["axis"], x[1])],
    "scatter": lambda x, a: [_scatter(*x, a["axis"])],
    "scatter_add": lambda x, a: [torch.scatter_add(x[0], a["axis"], x[1], x[2])],
    "index_select": lambda x, a: [torch.index_select(x[0], a["axis"], x[1])],
    "index_add": lambda x, a: [torch.index_add(x[0], a["axis"], x[1], x[2])],
    "one_hot": lambda x, a: [
        torch.nn.functional.one_hot(x[0], a["classes"]).to(
            {"f64": torch.double, "bf16": torch.double, "bool": torch.bool}.get(a["dtype"], torch.int64))],
    "take": lambda x, a: [torch.take(x[0], x[1])],
    "index_get": lambda x, a: [x[0][tuple(x[1:])]],
    "index_put": lambda x, a: [_index_put(x[0], x[1], x[2:], a["accumulate"])],
    "nonzero": lambda x, a: [torch.nonzero(x[0])],
    "masked_fill": lambda x, a: [
        torch.masked_fill(torch.broadcast_tensors(*x)[1], torch.broadcast_tensors(*x)[0], a["value"])],
    "masked_select": lambda x, a: [torch.masked_select(*x)],
    "masked_scatter": lambda x, a: [torch.masked_scatter(*x)],
    "masked_gather": lambda x, a: [_masked_gather(x[0], x[1], a["size"])],
}
