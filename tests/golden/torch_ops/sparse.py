"""What sparse products mean, said with PyTorch."""
import torch


def _inside(offsets, columns):
    """The row of every value that lies in one, and which those are."""
    rows = torch.repeat_interleave(torch.arange(offsets.shape[0] - 1), offsets[1:] - offsets[:-1])
    return rows, slice(int(offsets[0]), int(offsets[-1]))


def _csr_matmul(x, a):
    offsets, columns, values, dense = x
    width = a["columns"] if a["trans"] else dense.shape[0]
    rows, inside = _inside(offsets, columns)
    matrix = torch.zeros((offsets.shape[0] - 1, width), dtype=values.dtype)
    matrix = matrix.index_put((rows, columns[inside]), values[inside], accumulate=True)
    return [(matrix.T if a["trans"] else matrix) @ dense]


def _csr_sample(x, a):
    offsets, columns, left, right = x
    rows, inside = _inside(offsets, columns)
    values = torch.zeros(columns.shape, dtype=left.dtype)
    values[inside] = (left[rows] * right[columns[inside]]).sum(1)
    return [values]


OPS = {"csr_matmul": _csr_matmul, "csr_sample": _csr_sample}
