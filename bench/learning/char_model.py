"""The character models of examples/char_gpt.yaml and examples/char_lstm.yaml in PyTorch. Prints one line of JSON.

    starling print-config examples/char_gpt.yaml --json > job.json
    python char_model.py --job job.json --text FILE... --seed 1 --threads 2
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from training import arguments, fit


class PlacedTokens(nn.Module):
    def __init__(self, vocabulary, tokens, width):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.place = nn.Parameter(torch.empty(tokens, width))
        for table in (self.token.weight, self.place):
            nn.init.normal_(table, std=0.02)

    def forward(self, ids):
        return self.token(ids) + self.place


class Attend(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        n, t, width = x.shape
        q, k, v = (part.view(n, t, self.heads, -1).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).reshape(n, t, width))


class Think(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.fc2(F.gelu(self.fc1(self.norm(x))))


class Gpt(nn.Sequential):
    """src/starling/zoo/nets/gpt.cpp: layers begin as PyTorch's do, both embeddings with a deviation of 0.02."""

    def __init__(self, vocabulary, tokens, o):
        super().__init__()
        width = o["width"]
        self.add_module("embed", PlacedTokens(vocabulary, tokens, width))
        self.add_module("drop", nn.Dropout(o["dropout"]))
        for i in range(o["depth"]):
            block = nn.Sequential()
            block.add_module("attend", Attend(width, o["heads"]))
            block.add_module("think", Think(width))
            self.add_module(f"block{i + 1}", block)
        self.add_module("norm", nn.LayerNorm(width))
        self.add_module("head", nn.Linear(width, vocabulary, bias=False))


class LstmModel(nn.Module):
    """src/starling/zoo/nets/recurrent.cpp: everything begins as in PyTorch."""

    def __init__(self, vocabulary, tokens, o):
        super().__init__()
        width, layers = o["width"], o["layers"]
        self.embed = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True, dropout=o["dropout"] if layers > 1 else 0)
        self.drop = nn.Dropout(o["dropout"])
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids):
        return self.head(self.drop(self.lstm(self.embed(ids))[0]))


NETS = {"gpt": Gpt, "lstm_lm": LstmModel}


def read_ids(files):
    """One id a character, in the order of their bytes; a byte that is no UTF-8 is a character."""
    text = b"".join(open(file, "rb").read() for file in files).decode("utf-8", "surrogateescape")
    characters = sorted(set(text), key=lambda c: c.encode("utf-8", "surrogateescape"))
    number = {c: i for i, c in enumerate(characters)}
    return torch.tensor([number[c] for c in text]), len(characters)


def windows(ids, window, stride, limit):
    """Rows of window + 1 ids: what is read, and one place on what is to be told."""
    if limit:
        ids = ids[:limit]
    return ids.unfold(0, window + 1, stride)


def main():
    args, job = arguments(__doc__, "text", several=True)
    o = job["data"]
    ids, vocabulary = read_ids(args.text or o["files"])
    train_end = int(len(ids) * (1 - o["valid_share"] - o["test_share"]))
    train = windows(ids[:train_end], o["window"], o["stride"] or o["window"], o["train_limit"])
    test = windows(ids[train_end:], o["window"], o["window"], o["test_limit"])
    net = NETS[job["model"]["name"]](vocabulary, o["window"], job["model"])

    def loss(rows):
        return F.cross_entropy(net(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())

    def evaluate():
        total = sum(loss(rows).item() * len(rows) for rows in test.split(o["eval_batch"]))
        return {"test_loss": total / len(test), "perplexity": math.exp(total / len(test))}

    fit(net, len(train), lambda rows: loss(train[rows]), evaluate, job, args.weights)


if __name__ == "__main__":
    main()
