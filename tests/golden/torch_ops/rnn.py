"""Recurrent layers against torch.nn.LSTM, GRU and RNN.

The layers take projected inputs: PyTorch gets them with the identity as input weights. Each row of the batch runs alone,
over its own length, step by step, so that every state in between can be compared.
"""

import torch

LINEAR = "linear in its first operands around gates and states that belong to no forward pass: checked by differences"


def module_of(kind, w, hidden, biases, **options):
    module = kind(w.shape[0], hidden, **options).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
        module.weight_ih_l0.copy_(torch.eye(w.shape[0]))
        module.weight_hh_l0.copy_(w)
        if biases is not None:
            module.bias_hh_l0.copy_(biases)
    return module


def states_of(module, gx, initial, lengths, reverse):
    """initial: one tensor [n, h] a kind of state; returns one [t + 1, n, h] for each."""
    steps, batch = gx.shape[0], gx.shape[1]
    out = [torch.zeros(steps + 1, batch, s.shape[1], dtype=torch.double) for s in initial]
    order = list(range(steps))[::-1] if reverse else list(range(steps))
    for n in range(batch):
        state = [s[n:n + 1][None] for s in initial]
        for all_states, s in zip(out, state):
            all_states[steps if reverse else 0, n] = s[0, 0]
        for t in order:
            if lengths is None or t < lengths[n]:
                _, new = module(gx[t:t + 1, n:n + 1], tuple(state) if len(state) > 1 else state[0])
                state = list(new) if len(state) > 1 else [new]
            for all_states, s in zip(out, state):
                all_states[t if reverse else t + 1, n] = s[0, 0]
    return out


def lstm_layer(inputs, attrs):
    gx, w, h0, c0 = inputs[:4]
    lengths = inputs[4] if len(inputs) > 4 else None
    module = module_of(torch.nn.LSTM, w, h0.shape[1], None)
    with torch.no_grad():
        return states_of(module, gx, [h0, c0], lengths, attrs.get("reverse", False)) + [None]


def gru_layer(inputs, attrs):
    gx, w, b, h0 = inputs[:4]
    lengths = inputs[4] if len(inputs) > 4 else None
    module = module_of(torch.nn.GRU, w, h0.shape[1], b)
    with torch.no_grad():
        return states_of(module, gx, [h0], lengths, attrs.get("reverse", False)) + [None]


def rnn_layer(inputs, attrs):
    gx, w, h0 = inputs[:3]
    lengths = inputs[3] if len(inputs) > 3 else None
    module = module_of(torch.nn.RNN, w, h0.shape[1], None, nonlinearity="relu" if attrs.get("relu") else "tanh")
    with torch.no_grad():
        return states_of(module, gx, [h0], lengths, attrs.get("reverse", False))


OPS = {
    "lstm_layer": lstm_layer,
    "lstm_layer_backward": LINEAR,
    "lstm_layer_tangent": LINEAR,
    "gru_layer": gru_layer,
    "gru_layer_backward": LINEAR,
    "gru_layer_tangent": LINEAR,
    "rnn_layer": rnn_layer,
    "rnn_layer_backward": LINEAR,
    "rnn_layer_tangent": LINEAR,
}
