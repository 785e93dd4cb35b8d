"""Layers that move elements about."""

import torch
from torch import nn


class Call(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, *xs):
        return self.f(*xs)


def add_cases(file):
    x, image = torch.randn(2, 3, 4), torch.randn(2, 8, 3, 4)
    file.add("identity", "{}", nn.Identity(), [x])
    file.add("flatten", "{}", nn.Flatten(), [image])
    file.add("flatten", "{from: 2}", nn.Flatten(2), [image])
    file.add("reshape", "{shape: [4, -1]}", nn.Unflatten(1, (4, -1)), [image.flatten(1)])
    file.add("permute", "{order: [2, 0, 1]}", Call(lambda t: t.permute(0, 3, 1, 2)), [image])
    file.add("pad", "{before: [1, 2], after: [0, 1]}", nn.ConstantPad2d((2, 1, 1, 0), 0), [image])
    file.add("pad", "{before: 2, after: 1, mode: reflect}", nn.ReflectionPad1d((2, 1)), [x])
    file.add("pad", "{before: 1, after: 3, mode: edge}", nn.ReplicationPad1d((1, 3)), [x])
    file.add("pixel_shuffle", "{}", nn.PixelShuffle(2), [image])
    file.add("pixel_unshuffle", "{}", nn.PixelUnshuffle(2), [torch.randn(1, 3, 4, 6)])
    file.add("channel_shuffle", "{groups: 2}", nn.ChannelShuffle(2), [image])
    file.add("select", "{}", Call(lambda t: t[:, -1]), [x])
    file.add("narrow", "{axis: 2, begin: 1, size: 2}", Call(lambda t: t[:, :, 1:3]), [x])
    file.add("mean", "{axes: [1, 2]}", Call(lambda t: t.mean((1, 2))), [x])
    file.add("sum", "{axes: -1}", Call(lambda t: t.sum(-1)), [x])
    file.add("unfold", "{kernel: [2, 3], stride: 2, padding: 1}", nn.Unfold((2, 3), stride=2, padding=1), [image])
    file.add("fold", "{size: [4, 5], kernel: 2}", nn.Fold((4, 5), 2), [torch.randn(2, 8, 12)])
    file.add("upsample", "{}", nn.Upsample(scale_factor=2), [image])
    file.add("upsample", "{scale: [2, 1.5], mode: bilinear}",
             Call(lambda t: nn.functional.interpolate(t, scale_factor=(2, 1.5), mode="bilinear")), [image])
    file.add("upsample", "{size: [5, 7], mode: bilinear, align_corners: true}",
             nn.Upsample(size=(5, 7), mode="bilinear", align_corners=True), [image])
    a, b = torch.randn(2, 3, 4), torch.randn(2, 3, 4)
    file.add("add", "{}", Call(lambda p, q: p + q), [a, b])
    file.add("mul", "{}", Call(lambda p, q: p * q), [a, torch.randn(2, 3, 1)])
    file.add("sub", "{}", Call(lambda p, q: p - q), [a, b])
    file.add("concat", "{}", Call(lambda p, q: torch.cat((p, q), 1)), [a, torch.randn(2, 2, 4)])
    file.add("concat", "{axis: -1}", Call(lambda p, q: torch.cat((p, q), -1)), [a, b])
