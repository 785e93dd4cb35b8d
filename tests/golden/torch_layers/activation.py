"""Activations, and dropout in eval mode."""

import torch
from torch import nn


def add_cases(file):
    x = torch.randn(3, 4, 5) * 3
    plain = {"relu": nn.ReLU, "relu6": nn.ReLU6, "sigmoid": nn.Sigmoid, "tanh": nn.Tanh, "silu": nn.SiLU,
             "mish": nn.Mish, "selu": nn.SELU, "hardswish": nn.Hardswish, "hardsigmoid": nn.Hardsigmoid,
             "softplus": nn.Softplus, "softsign": nn.Softsign, "log_sigmoid": nn.LogSigmoid,
             "tanhshrink": nn.Tanhshrink, "gelu": nn.GELU, "leaky_relu": nn.LeakyReLU, "elu": nn.ELU,
             "celu": nn.CELU, "hardtanh": nn.Hardtanh}
    for kind, module in plain.items():
        file.add(kind, "{}", module(), [x])
    file.add("gelu", "{tanh: true}", nn.GELU("tanh"), [x])
    file.add("leaky_relu", "{slope: 0.2}", nn.LeakyReLU(0.2), [x])
    file.add("elu", "{alpha: 0.5}", nn.ELU(0.5), [x])
    file.add("celu", "{alpha: 0.5}", nn.CELU(0.5), [x])
    file.add("hardtanh", "{min: -2, max: 0.5}", nn.Hardtanh(-2, 0.5), [x])
    file.add("prelu", "{}", nn.PReLU(), [x])
    file.add("prelu", "{channels: 0}", nn.PReLU(4), [x])
    file.add("softmax", "{}", nn.Softmax(-1), [x])
    file.add("softmax", "{axis: 1}", nn.Softmax(1), [x])
    file.add("log_softmax", "{}", nn.LogSoftmax(-1), [x])
    file.add("glu", "{axis: 1}", nn.GLU(1), [x])
    file.add("dropout", "{}", nn.Dropout(), [x], train=False)
    file.add("channel_dropout", "{}", nn.Dropout2d(), [x[..., None]], train=False)
    file.add("alpha_dropout", "{}", nn.AlphaDropout(), [x], train=False)
