"""Softmax along the last axis as PyTorch says it."""

import torch

OPS = {
    "softmax": lambda inputs, attrs: [torch.softmax(inputs[0], -1)],
    "log_softmax": lambda inputs, attrs: [torch.log_softmax(inputs[0], -1)],
    "softmax_backward": lambda inputs, attrs: [
        inputs[1] * (inputs[0] - (inputs[0] * inputs[1]).sum(-1, keepdim=True))
    ],
    "log_softmax_backward": lambda inputs, attrs: [
        inputs[0] - torch.exp(inputs[1]) * inputs[0].sum(-1, keepdim=True)
    ],
}
