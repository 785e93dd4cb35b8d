"""Poolings."""

import torch
from torch import nn


class Globally(nn.Module):
    def __init__(self, largest):
        super().__init__()
        self.largest = largest

    def forward(self, x):
        return x.flatten(2).amax(2) if self.largest else x.flatten(2).mean(2)


def add_cases(file):
    xs = {1: torch.randn(2, 3, 9), 2: torch.randn(2, 2, 7, 6), 3: torch.randn(1, 2, 5, 4, 4)}
    for axes, x in xs.items():
        torch_max, torch_avg = getattr(nn, f"MaxPool{axes}d"), getattr(nn, f"AvgPool{axes}d")
        file.add(f"max_pool{axes}d", "{}", torch_max(2), [x])
        file.add(f"max_pool{axes}d", "{kernel: 3, stride: 2, padding: 1, ceil_mode: true}",
                 torch_max(3, stride=2, padding=1, ceil_mode=True), [x])
        file.add(f"avg_pool{axes}d", "{}", torch_avg(2), [x])
        file.add(f"avg_pool{axes}d", "{kernel: 3, stride: 2, padding: 1, count_include_pad: false}",
                 torch_avg(3, stride=2, padding=1, count_include_pad=False), [x])
        file.add(f"lp_pool{axes}d", "{kernel: 3, stride: 1}", getattr(nn, f"LPPool{axes}d")(2, 3, stride=1), [x.abs()])
        file.add(f"adaptive_max_pool{axes}d", "{size: 2}", getattr(nn, f"AdaptiveMaxPool{axes}d")(2), [x])
        file.add(f"adaptive_avg_pool{axes}d", "{size: 3}", getattr(nn, f"AdaptiveAvgPool{axes}d")(3), [x])
    file.add("max_pool2d", "{kernel: [2, 3], stride: [1, 2], dilation: [2, 1]}",
             nn.MaxPool2d((2, 3), stride=(1, 2), dilation=(2, 1)), [xs[2]])
    file.add("global_avg_pool", "{}", Globally(False), [xs[2]])
    file.add("global_max_pool", "{}", Globally(True), [xs[3]])
