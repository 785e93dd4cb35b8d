"""Dense layers and embeddings."""

import torch
from torch import nn


def add_cases(file):
    x = torch.randn(3, 4, 5)
    file.add("linear", "{out: 2}", nn.Linear(5, 2), [x])
    file.add("linear", "{out: 3, bias: false}", nn.Linear(5, 3, bias=False), [x[:, 0]])
    file.add("bilinear", "{out: 3}", nn.Bilinear(5, 4, 3), [torch.randn(3, 5), torch.randn(3, 4)])
    ids = torch.randint(0, 7, (3, 4))
    ids[0, 0] = 2
    file.add("embedding", "{vocabulary: 7, width: 3}", nn.Embedding(7, 3), [ids])
    file.add("embedding", "{vocabulary: 7, width: 3, padding: 2}", nn.Embedding(7, 3, padding_idx=2), [ids])
    for mode in ("sum", "mean", "max"):
        file.add("embedding_bag", f"{{vocabulary: 7, width: 3, mode: {mode}}}", nn.EmbeddingBag(7, 3, mode=mode), [ids])
    file.add("embedding_bag", "{vocabulary: 7, width: 3, mode: sum}", nn.EmbeddingBag(7, 3, mode="sum"),
             [torch.tensor([1, 2, 4, 5, 4, 3]), torch.tensor([0, 2, 2])], samples=1)
