"""Pooling."""

import torch
import torch.nn.functional as F


def spatial(x, numbers):
    dims = x.dim() - 2
    return list(numbers) * dims if len(numbers) == 1 else list(numbers)


def windows(x, attrs):
    kernel = spatial(x, attrs["kernel"])
    return {"kernel_size": kernel, "stride": spatial(x, attrs["stride"]) if attrs["stride"] else kernel,
            "ceil_mode": attrs["ceil_mode"]}


def empty(x):
    return x.shape[0] == 0


def max_pool(dims):
    def pool(inputs, attrs):
        x = inputs[0]
        function = getattr(F, f"max_pool{dims}d")
        y, index = function(x.new_zeros([1, *x.shape[1:]]) if empty(x) else x, **windows(x, attrs),
                            padding=spatial(x, attrs["padding"]), dilation=spatial(x, attrs["dilation"]),
                            return_indices=True)
        return [y[:x.shape[0]], index[:x.shape[0]].int()]
    return pool


def avg_pool(dims, x, attrs):
    options = {**windows(x, attrs), "padding": spatial(x, attrs["padding"])}
    options["count_include_pad"] = attrs["count_include_pad"]
    divisor = attrs["divisor"] or None
    if dims == 1:  # has no divisor of its own
        size = options["kernel_size"][0]
        if divisor is None:
            return F.avg_pool1d(x, **options)
        options["count_include_pad"] = True
        assert not attrs["ceil_mode"]
        return F.avg_pool1d(x, **options) * size / divisor
    return getattr(F, f"avg_pool{dims}d")(x, **options, divisor_override=divisor)


def lp_pool(dims):
    def pool(inputs, attrs):
        x = inputs[0]
        if empty(x):
            return max_pool(dims)([x], {**attrs, "padding": [0], "dilation": [1]})[:1]
        kernel, stride = spatial(x, attrs["kernel"]), spatial(x, attrs["stride"] or attrs["kernel"])
        sums = lp_sums(x, dims, kernel, stride, attrs)
        return [sums ** (1 / attrs["p"])]
    return pool


def lp_sums(x, dims, kernel, stride, attrs):
    powers = x.abs() ** attrs["p"]
    if dims == 1:
        y = F.avg_pool2d(powers.unsqueeze(2), [1, *kernel], [1, *stride], ceil_mode=attrs["ceil_mode"],
                         divisor_override=1)
        return y.squeeze(2)
    return getattr(F, f"avg_pool{dims}d")(powers, kernel, stride, ceil_mode=attrs["ceil_mode"], divisor_override=1)


def adaptive_max(dims):
    def pool(inputs, attrs):
        x = inputs[0]
        function = getattr(F, f"adaptive_max_pool{dims}d")
        y, index = function(x.new_zeros([1, *x.shape[1:]]) if empty(x) else x, spatial(x, attrs["size"]),
                            return_indices=True)
        return [y[:x.shape[0]], index[:x.shape[0]].int()]
    return pool


def adaptive_avg(x, size):
    return getattr(F, f"adaptive_avg_pool{x.dim() - 2}d")(x, spatial(x, size))


def gradient(function, shape, dy):
    x = torch.zeros(shape, dtype=dy.dtype, requires_grad=True)
    if x.numel() == 0:
        return [x.detach()]
    return list(torch.autograd.grad(function(x), x, dy))


def max_backward(inputs, attrs):
    dy, index = inputs
    dx = torch.zeros(attrs["shape"], dtype=dy.dtype).flatten(2)
    return [dx.scatter_add(2, index.long().flatten(2), dy.flatten(2)).reshape(attrs["shape"])]


def max_gather(inputs, attrs):
    x, index = inputs
    return [x.flatten(2).gather(2, index.long().flatten(2)).reshape(index.shape)]


def avg_backward(inputs, attrs):
    dims = len(attrs["shape"]) - 2
    return gradient(lambda x: avg_pool(dims, x, attrs), attrs["shape"], inputs[0])


def global_max(inputs, attrs):
    x = inputs[0]
    ones = [*x.shape[:2], *[1] * (x.dim() - 2)]
    y, index = x.flatten(2).max(2) if not empty(x) else (x.new_zeros(ones), torch.zeros(ones))
    return [y.reshape(ones), index.reshape(ones).int()]


def power(signed):
    def compute(inputs, attrs):
        y = inputs[0].abs() ** attrs["exponent"]
        return [y * inputs[0].sign() if signed else y]
    return compute


OPS = {
    "max_pool_backward": max_backward,
    "max_pool_gather": max_gather,
    "avg_pool_backward": avg_backward,
    "adaptive_avg_pool_backward": lambda inputs, attrs: gradient(
        lambda x: adaptive_avg(x, inputs[0].shape[2:]), attrs["shape"], inputs[0]),
    "global_max_pool": global_max,
    "global_avg_pool": lambda inputs, attrs: [inputs[0].mean(list(range(2, inputs[0].dim())), keepdim=True)],
    "abs_pow": power(False),
    "signed_pow": power(True),
}
for d in (1, 2, 3):
    OPS[f"max_pool{d}d"] = max_pool(d)
    OPS[f"max_pool{d}d_values"] = lambda inputs, attrs, d=d: max_pool(d)(inputs, attrs)[:1]
    OPS[f"avg_pool{d}d"] = lambda inputs, attrs, d=d: [avg_pool(d, inputs[0], attrs)]
    OPS[f"lp_pool{d}d"] = lp_pool(d)
    OPS[f"adaptive_max_pool{d}d"] = adaptive_max(d)
    OPS[f"adaptive_avg_pool{d}d"] = lambda inputs, attrs: [adaptive_avg(inputs[0], attrs["size"])]
