"""What linear algebra means, said with PyTorch; signs that are free are made ours."""
import torch


def _lower(a):
    return torch.tril(a) + torch.tril(a, -1).mT


def _positive(columns):
    """The sign that makes the largest element of every column positive, [.., 1, k]."""
    if columns.shape[-2] == 0:
        return columns.new_ones(columns.shape[:-2] + (1, columns.shape[-1]))
    largest = columns.abs().argmax(-2, keepdim=True)
    return torch.where(torch.gather(columns, -2, largest) < 0, -1.0, 1.0).to(columns.dtype)


def _cholesky(x, a):
    symmetric = _lower(x[0].mT).mT if a["upper"] else _lower(x[0])
    return [torch.linalg.cholesky(symmetric, upper=a["upper"])]


def _qr(x, a):
    q, r = torch.linalg.qr(x[0])
    sign = torch.where(torch.diagonal(r, dim1=-2, dim2=-1) < 0, -1.0, 1.0).to(q.dtype)
    return [q * sign.unsqueeze(-2), r * sign.unsqueeze(-1)]


def _svd(x, a):
    u, s, vh = torch.linalg.svd(x[0], full_matrices=False)
    sign = _positive(u)
    return [u * sign, s, vh * sign.mT]


def _eigh(x, a):
    values, vectors = torch.linalg.eigh(_lower(x[0]))
    return [values, vectors * _positive(vectors)]


OPS = {
    "inverse": lambda x, a: [torch.linalg.inv(x[0])],
    "determinant": lambda x, a: [torch.linalg.det(x[0])],
    "slogdet": lambda x, a: list(torch.linalg.slogdet(x[0])),
    "solve": lambda x, a: [torch.linalg.solve(x[0], x[1])],
    "cholesky": _cholesky,
    "qr": _qr,
    "svd": _svd,
    "eigh": _eigh,
}
