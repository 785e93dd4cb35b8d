"""Local response and local contrast normalisation."""

import torch
import torch.nn.functional as F


def response(x, attrs):
    shape = x.shape
    if x.dim() == 2:
        x = x.unsqueeze(2)
    return F.local_response_norm(x, attrs["size"], attrs["alpha"], attrs["beta"], attrs["k"]).reshape(shape)


def gradient(function, x, dy):
    x = x.clone().requires_grad_()
    return list(torch.autograd.grad(function(x), x, dy))


def channel_sum(inputs, attrs):
    x = inputs[0]
    c = x.shape[1]
    rows, columns = torch.arange(c).unsqueeze(1), torch.arange(c)
    inside = ((columns >= rows - attrs["before"]) & (columns <= rows + attrs["after"])).to(x.dtype)
    return [torch.einsum("ij,nj...->ni...", inside, x)]


def gaussian(x, attrs):
    size = attrs["size"]
    offsets = torch.arange(size, dtype=x.dtype) - size // 2
    weights = torch.exp(-(offsets / attrs["sigma"]) ** 2 / 2)
    window = torch.outer(weights, weights).expand(1, x.shape[1], size, size)
    sums = F.conv2d(x, window, padding=size // 2)
    return sums / F.conv2d(torch.ones_like(x[:1]) if x.shape[0] else x.new_ones(1, *x.shape[1:]), window,
                           padding=size // 2)


def contrast(inputs, attrs):
    x = inputs[0]
    v = x - gaussian(x, attrs)
    s = (gaussian(v * v, attrs) + attrs["epsilon"]).sqrt()
    return [v / torch.maximum(s, s.mean((2, 3), keepdim=True))]


OPS = {
    "local_response_norm": lambda inputs, attrs: [response(inputs[0], attrs)],
    "local_response_norm_backward": lambda inputs, attrs: gradient(
        lambda x: response(x, attrs), inputs[1], inputs[0]),
    "channel_window_sum": channel_sum,
    "local_contrast_norm": contrast,
    "gaussian_mean": lambda inputs, attrs: [gaussian(inputs[0], attrs)],
    "gaussian_mean_backward": lambda inputs, attrs: gradient(
        lambda x: gaussian(x, attrs), torch.zeros(attrs["shape"], dtype=inputs[0].dtype), inputs[0]),
}
