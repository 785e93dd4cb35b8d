"""Spelling into sounds, the network of examples/g2p.yaml, in PyTorch. Prints one line of JSON.

    starling print-config examples/g2p.yaml --json > job.json
    python spelling.py --job job.json --dictionary FILE --seed 1 --threads 2

A word counts as right when greedy decoding gives all its sounds and then the end.
"""

import re

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from counters import share_of
from training import arguments, fit

PADDING, BEGIN, END, FIRST = 0, 1, 2, 3


class Seq2Seq(nn.Module):
    """src/starling/zoo/nets/seq2seq.cpp: layers begin as PyTorch's do, both embeddings with a deviation of 0.1."""

    def __init__(self, letters, sounds, o):
        super().__init__()
        width, hidden = o["width"], o["hidden"]
        self.source = nn.Embedding(letters, width)
        self.target = nn.Embedding(sounds, width)
        for table in (self.source.weight, self.target.weight):
            nn.init.normal_(table, std=0.1)
        self.encoder = nn.LSTM(width, hidden, batch_first=True, bidirectional=True)
        self.decoder = nn.LSTM(width, hidden, batch_first=True)
        self.begin_h = nn.Linear(2 * hidden, hidden)
        self.begin_c = nn.Linear(2 * hidden, hidden)
        self.look = nn.Linear(hidden, 2 * hidden, bias=False)
        self.mix = nn.Linear(3 * hidden, hidden)
        self.head = nn.Linear(hidden, sounds)
        self.drop = nn.Dropout(o["dropout"])

    def encode(self, source):
        there = source != PADDING
        packed = pack_padded_sequence(self.drop(self.source(source)), there.sum(1), batch_first=True,
                                      enforce_sorted=False)
        read, (h, c) = self.encoder(packed)
        memory, _ = pad_packed_sequence(read, batch_first=True, total_length=source.shape[1])

        def begin(layer, last):  # [2, n, hidden] → [1, n, hidden]
            return torch.tanh(layer(last.transpose(0, 1).flatten(1)))[None].contiguous()

        return memory, there[:, None], (begin(self.begin_h, h), begin(self.begin_c, c))

    def decode(self, memory, there, state, previous):
        wrote, state = self.decoder(self.drop(self.target(previous)), state)
        scores = (self.look(wrote) @ memory.transpose(1, 2)).masked_fill(~there, float("-inf"))
        seen = scores.softmax(2) @ memory
        mixed = torch.tanh(self.mix(torch.cat([seen, wrote], 2)))
        return self.head(self.drop(mixed)), state

    def logits(self, source, target):
        begin = torch.full((len(target), 1), BEGIN)
        return self.decode(*self.encode(source), torch.cat([begin, target[:, :-1]], 1))[0]

    def write(self, source, tokens):
        """Greedy: ids [n, tokens] with the end, zeros behind it."""
        memory, there, state = self.encode(source)
        previous, written = torch.full((len(source), 1), BEGIN), []
        for _ in range(tokens):
            ended = (previous == END) | (previous == PADDING)
            logits, state = self.decode(memory, there, state, previous)
            previous = logits.argmax(2).masked_fill(ended, PADDING)
            written.append(previous)
        return torch.cat(written, 1)


def read_entries(file, o):
    """Words and their sounds, as src/starling/data/sources/dictionary.cpp takes them. A character is a byte."""
    entries = []
    for row in open(file, encoding="latin-1", newline="").read().split("\n"):
        parts = [part for part in re.split("[ \t\r]", row) if part]
        if not parts or parts[0].startswith(";;;"):
            continue
        bracket = parts[0].find("(")
        if bracket > 0 and not o["alternatives"]:
            continue
        word = parts[0][:bracket] if bracket > 0 else parts[0]
        if len(word) <= o["most_source"] and len(parts) <= o["most_target"]:
            entries.append((word, parts[1:]))
    return entries


def padded(rows, tokens):
    return torch.tensor([row + [PADDING] * (tokens - len(row)) for row in rows])


def read_parts(file, o):
    """(sources, targets) to train with and to test with, and the sizes of both vocabularies."""
    entries = read_entries(file, o)
    letters = {c: FIRST + i for i, c in enumerate(sorted({c for word, _ in entries for c in word}))}
    sounds = {s: FIRST + i for i, s in enumerate(sorted({s for _, row in entries for s in row}))}
    parts = {False: [], True: []}
    for word, row in entries:
        parts[share_of(word.encode("latin-1"), o["split_seed"] + 1) < o["test_share"]].append((word, row))

    def tensors(part, limit):
        part = part[:limit] if limit else part
        return (padded([[letters[c] for c in word] for word, _ in part], o["most_source"]),
                padded([[sounds[s] for s in row] + [END] for _, row in part], o["most_target"]))

    return (tensors(parts[False], o["train_limit"]), tensors(parts[True], o["test_limit"]),
            FIRST + len(letters), FIRST + len(sounds))


def main():
    args, job = arguments(__doc__, "dictionary")
    o = job["data"]
    train, test, letters, sounds = read_parts(args.dictionary or o["file"], o)
    net = Seq2Seq(letters, sounds, job["model"])

    def loss(source, target, reduction="mean"):
        logits = net.logits(source, target)
        return F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PADDING, reduction=reduction)

    def evaluate():
        right, total = 0, 0.0
        for source, target in zip(*(column.split(o["eval_batch"]) for column in test)):
            total += loss(source, target, "sum").item()
            right += (net.write(source, o["most_target"]) == target).all(1).sum().item()
        return {"test_loss": total / (test[1] != PADDING).sum().item(), "word_accuracy": right / len(test[0])}

    fit(net, len(train[0]), lambda rows: loss(train[0][rows], train[1][rows]), evaluate, job, args.weights)


if __name__ == "__main__":
    main()
