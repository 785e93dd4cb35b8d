"""Convolutions, their gradients, windows and locally connected layers, said with PyTorch."""

import torch
import torch.nn.functional as F

LOCAL_GRADIENT = "the gradient of local_conv2d, whose values are held against PyTorch's: differences hold it against them"
ACTIVATIONS = {"": lambda y: y, "relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid}


def _window(attrs):
    return {name: attrs[name] for name in ("stride", "padding", "dilation")}


def _conv(function):
    def run(inputs, attrs):
        y = function(*inputs, **_window(attrs), groups=attrs["groups"])
        return [ACTIVATIONS[attrs["activation"]](y)]

    return run


def _conv_transpose(function):
    def run(inputs, attrs):
        return [function(*inputs, **_window(attrs), output_padding=attrs["output_padding"], groups=attrs["groups"])]

    return run


def _backward(function, of_input):
    def run(inputs, attrs):
        dy, other = inputs
        target = torch.zeros(attrs["shape"], dtype=dy.dtype, requires_grad=True)
        x, w = (target, other) if of_input else (other, target)
        y = function(x, w, **_window(attrs), groups=attrs["groups"])
        return [torch.autograd.grad(y, target, dy)[0]]

    return run


def _unfold(inputs, attrs):
    (x,) = inputs
    if x.shape[0] == 0:  # F.unfold takes no empty batch
        like = F.unfold(torch.zeros(1, *x.shape[1:], dtype=x.dtype), attrs["kernel"], **_window(attrs))
        return [like[:0]]
    return [F.unfold(x, attrs["kernel"], **_window(attrs))]


def _fold(inputs, attrs):
    (columns,) = inputs
    if columns.shape[0] == 0:
        one = torch.zeros(1, *columns.shape[1:], dtype=columns.dtype)
        return [F.fold(one, attrs["size"], attrs["kernel"], **_window(attrs))[:0]]
    return [F.fold(columns, attrs["size"], attrs["kernel"], **_window(attrs))]


def _local_conv2d(inputs, attrs):
    x, w = inputs[:2]
    columns = _unfold([x], attrs)[0]  # [n, taps, positions]
    y = torch.einsum("nkp,pok->nop", columns, w)
    size = [
        (x.shape[i + 2] + 2 * attrs["padding"][i] - attrs["dilation"][i] * (attrs["kernel"][i] - 1) - 1)
        // attrs["stride"][i]
        + 1
        for i in (0, 1)
    ]
    y = y.reshape(x.shape[0], w.shape[1], *size)
    return [y + inputs[2] if len(inputs) == 3 else y]


OPS = {
    "conv1d": _conv(F.conv1d),
    "conv2d": _conv(F.conv2d),
    "conv3d": _conv(F.conv3d),
    "conv2d_backward_input": _backward(F.conv2d, True),
    "conv2d_backward_weight": _backward(F.conv2d, False),
    "conv3d_backward_input": _backward(F.conv3d, True),
    "conv3d_backward_weight": _backward(F.conv3d, False),
    "conv_transpose1d": _conv_transpose(F.conv_transpose1d),
    "conv_transpose2d": _conv_transpose(F.conv_transpose2d),
    "conv_transpose3d": _conv_transpose(F.conv_transpose3d),
    "unfold": _unfold,
    "fold": _fold,
    "local_conv2d": _local_conv2d,
    "local_conv2d_backward_input": LOCAL_GRADIENT,
    "local_conv2d_backward_weight": LOCAL_GRADIENT,
}
