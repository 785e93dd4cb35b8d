"""Recurrent layers and cells."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

WORDS = {"weight": "w", "bias": "b"}


def names_of(module):
    """weight_ih_l0 is w_ih with us, the other layers and the way back keep their ends."""
    names = {}
    for name, _ in module.named_parameters():
        word, rest = name.split("_", 1)
        own = f"{WORDS[word]}_{rest}"
        names[own.removesuffix("_l0")] = name
    return names


def with_states(module, x, *states):
    """Results as (y, h) or (y, h, c)."""
    y, state = module(x) if not states else module(x, states if len(states) > 1 else states[0])
    return (y, *state) if isinstance(state, tuple) else (y, state)


def packed(module, x, h, c, lengths):
    states = (h, c) if c is not None else h
    sequence = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    y, state = module(sequence, states)
    y, _ = pad_packed_sequence(y, batch_first=True, total_length=x.shape[1])
    return (y, *state) if isinstance(state, tuple) else (y, state)


def add_cases(file):
    x = torch.randn(2, 4, 3)
    for kind, torch_kind in (("rnn", nn.RNN), ("gru", nn.GRU), ("lstm", nn.LSTM)):
        one = torch_kind(3, 2, batch_first=True)
        file.add(kind, "{hidden: 2}", one, [x], names_of(one), call=with_states)
        deep = torch_kind(3, 2, num_layers=2, bidirectional=True, batch_first=True)
        states = [torch.randn(4, 2, 2) for _ in range(2 if kind == "lstm" else 1)]
        file.add(kind, "{hidden: 2, layers: 2, bidirectional: true}", deep, [x, *states], names_of(deep), samples=1,
                 call=with_states)
        c = states[1] if kind == "lstm" else None
        file.add(kind, "{hidden: 2, layers: 2, bidirectional: true}", deep,
                 [x, states[0], c, torch.tensor([4, 2])], names_of(deep), samples=1, call=packed)
        bare = torch_kind(3, 2, bias=False, batch_first=True)
        file.add(kind, "{hidden: 2, bias: false, output: last}", bare, [x],
                 {f"layer.{own}": name for own, name in names_of(bare).items()},
                 call=lambda m, t: (m(t)[1][0] if isinstance(m(t)[1], tuple) else m(t)[1])[-1])
    relu = nn.RNN(3, 2, nonlinearity="relu", batch_first=True)
    file.add("rnn", "{hidden: 2, relu: true}", relu, [x], names_of(relu), call=with_states)

    step, h, c = torch.randn(2, 3), torch.randn(2, 4), torch.randn(2, 4)
    for kind, torch_kind in (("rnn_cell", nn.RNNCell), ("gru_cell", nn.GRUCell)):
        cell = torch_kind(3, 4)
        file.add(kind, "{hidden: 4}", cell, [step, h], names_of(cell))
    cell = nn.LSTMCell(3, 4)
    file.add("lstm_cell", "{hidden: 4}", cell, [step, h, c], names_of(cell), call=lambda m, x, a, b: m(x, (a, b)))
    file.add("lstm_cell", "{hidden: 4}", cell, [step], names_of(cell))
