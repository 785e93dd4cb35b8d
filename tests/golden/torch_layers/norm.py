"""Normalisations."""

import torch
from torch import nn


def add_cases(file):
    flat, line, image, volume = torch.randn(5, 4), torch.randn(3, 4, 5), torch.randn(3, 4, 3, 2), torch.randn(2, 2, 2, 3, 2)
    file.add("batch_norm1d", "{}", nn.BatchNorm1d(4), [flat])
    file.add("batch_norm1d", "{momentum: 0.25, eps: 0.01}", nn.BatchNorm1d(4, momentum=0.25, eps=0.01), [line])
    file.add("batch_norm2d", "{}", nn.BatchNorm2d(4), [image])
    file.add("batch_norm2d", "{}", nn.BatchNorm2d(4), [image], train=False)
    file.add("batch_norm2d", "{affine: false, running: false}",
             nn.BatchNorm2d(4, affine=False, track_running_stats=False), [image], train=False)
    file.add("batch_norm3d", "{}", nn.BatchNorm3d(2), [volume])
    file.add("layer_norm", "{}", nn.LayerNorm(5), [line])
    file.add("layer_norm", "{width: [4, 5], bias: false, eps: 0.1}", nn.LayerNorm((4, 5), bias=False, eps=0.1), [line])
    file.add("rms_norm", "{}", nn.RMSNorm(5, eps=1e-5), [line])
    file.add("group_norm", "{groups: 2}", nn.GroupNorm(2, 4), [image])
    file.add("instance_norm", "{}", nn.InstanceNorm2d(4), [image])
    file.add("instance_norm", "{affine: true}", nn.InstanceNorm1d(4, affine=True), [line])
    file.add("local_response_norm", "{size: 3, alpha: 0.5, beta: 0.6, k: 2}",
             nn.LocalResponseNorm(3, alpha=0.5, beta=0.6, k=2), [image])
