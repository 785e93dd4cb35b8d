"""Convolutions."""

import torch
from torch import nn


class Local(nn.Module):
    """A locally connected layer: every window times weights of its own place."""

    def __init__(self, channels, out, size, kernel, stride, padding):
        super().__init__()
        self.unfold = nn.Unfold(kernel, stride=stride, padding=padding)
        side = (size + 2 * padding - kernel) // stride + 1
        self.side = side
        self.weight = nn.Parameter(torch.zeros(side * side, out, channels * kernel * kernel))
        self.bias = nn.Parameter(torch.zeros(out, side, side))

    def forward(self, x):
        y = torch.einsum("nwp,pow->nop", self.unfold(x), self.weight)
        return y.reshape(len(x), -1, self.side, self.side) + self.bias


def add_cases(file):
    x1, x2, x3 = torch.randn(2, 4, 9), torch.randn(2, 4, 6, 5), torch.randn(2, 2, 4, 3, 4)
    file.add("conv1d", "{out: 3}", nn.Conv1d(4, 3, 3), [x1])
    file.add("conv1d", "{out: 6, kernel: 2, stride: 2, padding: 1, dilation: 2, groups: 2, bias: false}",
             nn.Conv1d(4, 6, 2, stride=2, padding=1, dilation=2, groups=2, bias=False), [x1])
    file.add("conv2d", "{out: 3}", nn.Conv2d(4, 3, 3), [x2])
    file.add("conv2d", "{out: 4, kernel: [3, 2], stride: [2, 1], padding: [1, 0], dilation: [1, 2], groups: 4}",
             nn.Conv2d(4, 4, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=4), [x2])
    file.add("conv3d", "{out: 2, kernel: 2}", nn.Conv3d(2, 2, 2), [x3])
    file.add("conv3d", "{out: 2, kernel: [1, 2, 3], stride: [2, 1, 1], padding: [0, 1, 1], groups: 2}",
             nn.Conv3d(2, 2, (1, 2, 3), stride=(2, 1, 1), padding=(0, 1, 1), groups=2), [x3])
    file.add("conv_transpose1d", "{out: 3}", nn.ConvTranspose1d(4, 3, 2, stride=2), [x1])
    file.add("conv_transpose2d", "{out: 2}", nn.ConvTranspose2d(4, 2, 2, stride=2), [x2])
    file.add("conv_transpose2d", "{out: 4, kernel: 3, stride: [2, 3], padding: 1, output_padding: [1, 0], groups: 2}",
             nn.ConvTranspose2d(4, 4, 3, stride=(2, 3), padding=1, output_padding=(1, 0), groups=2), [x2])
    file.add("conv_transpose3d", "{out: 2, kernel: 2, stride: 1, dilation: 2, bias: false}",
             nn.ConvTranspose3d(2, 2, 2, stride=1, dilation=2, bias=False), [x3])
    file.add("locally_connected2d", "{out: 3, kernel: 2, stride: 2, padding: 1}", Local(2, 3, 4, 2, 2, 1),
             [torch.randn(2, 2, 4, 4)])
