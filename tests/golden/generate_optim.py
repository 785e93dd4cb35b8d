#!/usr/bin/env python3
"""Writes tests/golden/optim: what PyTorch's optimizers, schedules and averages do over 100 steps, in double precision.

    python3 tests/golden/generate_optim.py

LAMB, LARS and Lion, which PyTorch does not have, are written here in numpy from the formulas of their papers. A case is
a pair of tensors and a line of metadata: the kind and options as a job would give them. Needs numpy and PyTorch 2.x.
"""

import json
import math
import pathlib

import numpy
import torch

from generate import write_safetensors

FOLDER = pathlib.Path(__file__).resolve().parent / "optim"
SHAPES = [(3, 4), (5,)]
COUNT = 17
STEPS = 100
SHOWN = [1, 2, 10, 50, 100]
PULL = 0.1  # gradient = given + PULL * w: steps feed back
random = numpy.random.default_rng(5)
START = random.uniform(-1, 1, COUNT)
GIVEN = random.normal(0, 1, (STEPS, COUNT))


def f32(x):
    """Rates of f32 weights are; the tests of f64 weights round theirs alike."""
    return float(numpy.float32(x))


def parts(vector):
    cut, at = [], 0
    for shape in SHAPES:
        size = math.prod(shape)
        cut.append(numpy.array(vector[at:at + size]).reshape(shape))
        at += size
    return cut


def torch_run(make, scale=None):
    """The weights at the shown steps under a torch optimizer made of two parameters."""
    weights = [torch.nn.Parameter(torch.tensor(x)) for x in parts(START)]
    optimizer = make(weights)
    shown = []
    for step in range(STEPS):
        for weight, given in zip(weights, parts(GIVEN[step])):
            weight.grad = torch.tensor(given) + PULL * weight.detach()
        optimizer.step()
        if step + 1 in SHOWN:
            shown.append(numpy.concatenate([w.detach().numpy().reshape(-1) for w in weights]))
    return numpy.stack(shown)


def numpy_run(rule, **options):
    """The same under a rule(w, g, state, t, options), which returns the new weight."""
    weights, states, shown = parts(START), [{}, {}], []
    for t in range(1, STEPS + 1):
        gradients = [g + PULL * w for g, w in zip(parts(GIVEN[t - 1]), weights)]
        weights = [rule(w, g, s, t, **options) for w, g, s in zip(weights, gradients, states)]
        if t in SHOWN:
            shown.append(numpy.concatenate([w.reshape(-1) for w in weights]))
    return numpy.stack(shown)


def lion(w, g, state, t, lr, beta1=0.9, beta2=0.99, weight_decay=0.0):
    """Chen et al. 2023, program 1."""
    m = state.get("m", numpy.zeros_like(w))
    update = numpy.sign(beta1 * m + (1 - beta1) * g)
    state["m"] = beta2 * m + (1 - beta2) * g
    return w - lr * (update + weight_decay * w)


def lamb(w, g, state, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
    """You et al. 2020, algorithm 2, with phi the identity."""
    m = state["m"] = beta1 * state.get("m", 0) + (1 - beta1) * g
    v = state["v"] = beta2 * state.get("v", 0) + (1 - beta2) * g ** 2
    r = (m / (1 - beta1 ** t)) / (numpy.sqrt(v / (1 - beta2 ** t)) + eps)
    u = r + weight_decay * w
    size, length = numpy.linalg.norm(w), numpy.linalg.norm(u)
    return w - lr * (size / length if size > 0 and length > 0 else 1.0) * u


def lars(w, g, state, t, lr, momentum=0.9, trust=0.001, eps=0.0, weight_decay=1e-4):
    """You, Gitman and Ginsburg 2017, algorithm 1."""
    size, slope = numpy.linalg.norm(w), numpy.linalg.norm(g)
    local = trust * size / (slope + weight_decay * size + eps) if size > 0 and slope > 0 else 1.0
    state["v"] = momentum * state.get("v", 0) + lr * local * (g + weight_decay * w)
    return w - state["v"]


def torch_names(options):
    """Options of a job as torch calls them."""
    named = dict(options)
    if "beta1" in named or "beta2" in named:
        named["betas"] = (named.pop("beta1", 0.9), named.pop("beta2", 0.999))
    for ours, theirs in {"initial_accumulator": "initial_accumulator_value", "decoupled": "decoupled_weight_decay"}.items():
        if ours in named:
            named[theirs] = named.pop(ours)
    named["lr"] = f32(named["lr"])
    return named


OPTIMIZERS = {
    "sgd": (torch.optim.SGD, [
        {"lr": 0.05}, {"lr": 0.05, "weight_decay": 0.1}, {"lr": 0.05, "momentum": 0.9},
        {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.1}, {"lr": 0.05, "momentum": 0.8, "nesterov": True},
        {"lr": 0.05, "momentum": 0.8, "nesterov": True, "weight_decay": 0.1}]),
    "adagrad": (torch.optim.Adagrad, [
        {"lr": 0.1}, {"lr": 0.1, "lr_decay": 0.05}, {"lr": 0.1, "weight_decay": 0.2},
        {"lr": 0.1, "initial_accumulator": 0.5, "eps": 1e-3, "lr_decay": 0.01, "weight_decay": 0.1}]),
    "adadelta": (torch.optim.Adadelta, [
        {"lr": 1.0}, {"lr": 0.7, "rho": 0.6}, {"lr": 1.0, "eps": 1e-3, "weight_decay": 0.1}]),
    "rmsprop": (torch.optim.RMSprop, [
        {"lr": 0.02}, {"lr": 0.02, "alpha": 0.8, "eps": 1e-4}, {"lr": 0.02, "momentum": 0.7},
        {"lr": 0.02, "centered": True, "weight_decay": 0.1},
        {"lr": 0.02, "centered": True, "momentum": 0.5, "weight_decay": 0.1, "alpha": 0.9}]),
    "adam": (torch.optim.Adam, [
        {"lr": 0.03}, {"lr": 0.03, "amsgrad": True}, {"lr": 0.03, "weight_decay": 0.2},
        {"lr": 0.03, "beta1": 0.5, "beta2": 0.9, "eps": 1e-3},
        {"lr": 0.03, "beta2": 0.8, "amsgrad": True, "weight_decay": 0.1}]),
    "adamw": (torch.optim.AdamW, [
        {"lr": 0.03}, {"lr": 0.03, "weight_decay": 0.3}, {"lr": 0.03, "beta2": 0.8, "amsgrad": True},
        {"lr": 0.03, "beta1": 0.5, "eps": 1e-3, "weight_decay": 0.1}]),
    "adamax": (torch.optim.Adamax, [
        {"lr": 0.03}, {"lr": 0.03, "weight_decay": 0.2}, {"lr": 0.03, "beta1": 0.6, "beta2": 0.9, "eps": 1e-3}]),
    "nadam": (torch.optim.NAdam, [
        {"lr": 0.03}, {"lr": 0.03, "weight_decay": 0.2}, {"lr": 0.03, "weight_decay": 0.2, "decoupled": True},
        {"lr": 0.03, "momentum_decay": 0.1, "beta1": 0.8, "beta2": 0.9, "eps": 1e-3}]),
}
RULES = {
    "lion": (lion, [{"lr": 0.02}, {"lr": 0.02, "weight_decay": 0.3}, {"lr": 0.02, "beta1": 0.6, "beta2": 0.8}]),
    "lamb": (lamb, [{"lr": 0.02}, {"lr": 0.02, "weight_decay": 0.0}, {"lr": 0.02, "weight_decay": 0.3, "eps": 1e-3},
                    {"lr": 0.02, "beta1": 0.6, "beta2": 0.8}]),
    "lars": (lars, [{"lr": 1.0}, {"lr": 1.0, "trust": 0.01, "momentum": 0.5, "weight_decay": 0.1},
                    {"lr": 1.0, "trust": 0.02, "momentum": 0.0, "weight_decay": 0.0, "eps": 0.5}]),
}


def optimizers(tensors, metadata):
    tensors["start"], tensors["given"] = START, GIVEN
    metadata["shown"], metadata["pull"] = json.dumps(SHOWN), json.dumps(PULL)
    for kind, (make, variants) in OPTIMIZERS.items():
        for i, options in enumerate(variants):
            tensors[f"{kind}/{i}"] = torch_run(lambda w: make(w, **torch_names(options)))
            metadata[f"{kind}/{i}"] = json.dumps(options)
    for kind, (rule, variants) in RULES.items():
        for i, options in enumerate(variants):
            tensors[f"{kind}/{i}"] = numpy_run(rule, **{**options, "lr": f32(options["lr"])})
            metadata[f"{kind}/{i}"] = json.dumps(options)


def groups(tensors):
    """AdamW with another rate and decay for the second tensor; rates are rounded for each group."""
    def make(w):
        return torch.optim.AdamW([{"params": [w[0]]}, {"params": [w[1]], "lr": f32(0.03 * 0.3), "weight_decay": 0.0}],
                                 lr=f32(0.03), weight_decay=0.2)
    tensors["groups"] = torch_run(make)


def sparse(tensors):
    """A table of which each step touches a few rows, some of them twice."""
    rows = random.integers(0, 6, (STEPS, 4))
    values = random.normal(0, 1, (STEPS, 4, 3))
    start = random.uniform(-1, 1, (6, 3))
    tensors.update({"sparse/rows": rows, "sparse/values": values, "sparse/start": start})
    # PyTorch's sparse Adam adds eps before the correction of the second moment: next to none of it makes both alike.
    makers = {"adam": lambda w: torch.optim.SparseAdam(w, lr=f32(0.03), eps=1e-20),
              "adagrad": lambda w: torch.optim.Adagrad(w, lr=f32(0.1)),
              "sgd": lambda w: torch.optim.SGD(w, lr=f32(0.05))}
    for kind, make in makers.items():
        table = torch.nn.Parameter(torch.tensor(start))
        optimizer = make([table])
        for step in range(STEPS):
            table.grad = torch.sparse_coo_tensor(torch.tensor(rows[step:step + 1]), torch.tensor(values[step]), (6, 3))
            optimizer.step()
        tensors[f"sparse/{kind}"] = table.detach().numpy().copy()


def averages(tensors):
    """Of the rows of `given`, taken for weights."""
    from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
    for name, fn in {"ema": get_ema_multi_avg_fn(0.9), "swa": None}.items():
        model = torch.nn.Linear(COUNT, 1, bias=False).double()
        averaged = AveragedModel(model, multi_avg_fn=fn)
        shown = []
        for step in range(STEPS):
            with torch.no_grad():
                model.weight.copy_(torch.tensor(GIVEN[step:step + 1]))
            averaged.update_parameters(model)
            if step + 1 in SHOWN:
                shown.append(averaged.module.weight.detach().numpy().reshape(-1).copy())
        tensors[f"average/{name}"] = numpy.stack(shown)


def clipping(tensors):
    for name, p in {"2": 2.0, "1": 1.0, "3": 3.0, "inf": math.inf}.items():
        weights = [torch.nn.Parameter(torch.tensor(x)) for x in parts(START)]
        for weight, given in zip(weights, parts(GIVEN[0])):
            weight.grad = torch.tensor(given)
        norm = torch.nn.utils.clip_grad_norm_(weights, 0.7, norm_type=p)
        tensors[f"clip/{name}"] = numpy.concatenate(
            [numpy.array([norm.item()])] + [w.grad.numpy().reshape(-1) for w in weights])


def schedules(tensors, metadata):
    from torch.optim import lr_scheduler as s

    def torch_values(make):
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
        scheduler = make(optimizer)
        values = []
        for _ in range(STEPS):
            values.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            scheduler.step()
        return numpy.array(values)

    def warm(make, steps, start):
        return lambda o: s.SequentialLR(o, [s.LinearLR(o, start, 1.0, steps), make(o)], [steps])

    cases = [
        ("constant", {"factor": 0.3, "length": 7, "unit": "step"}, lambda o: s.ConstantLR(o, 0.3, 7)),
        ("step", {"every": 7, "gamma": 0.6, "unit": "step"}, lambda o: s.StepLR(o, 7, 0.6)),
        ("multi_step", {"milestones": [5, 20, 21, 80], "gamma": 0.4, "unit": "step"},
         lambda o: s.MultiStepLR(o, [5, 20, 21, 80], 0.4)),
        ("exponential", {"gamma": 0.97, "unit": "step"}, lambda o: s.ExponentialLR(o, 0.97)),
        ("linear", {"start": 0.2, "end": 0.9, "length": 40}, lambda o: s.LinearLR(o, 0.2, 0.9, 40)),
        ("polynomial", {"power": 2.0}, lambda o: s.PolynomialLR(o, STEPS, 2.0)),
        ("polynomial", {"power": 1.0, "length": 60}, lambda o: s.PolynomialLR(o, 60, 1.0)),
        ("cosine", {"end": 0.1}, lambda o: s.CosineAnnealingLR(o, STEPS, 0.1)),
        ("cosine_restarts", {"first": 10, "unit": "step"}, lambda o: s.CosineAnnealingWarmRestarts(o, 10)),
        ("cosine_restarts", {"first": 10, "times": 2, "end": 0.05, "unit": "step"},
         lambda o: s.CosineAnnealingWarmRestarts(o, 10, 2, 0.05)),
        ("one_cycle", {}, lambda o: s.OneCycleLR(o, 1.0, STEPS, cycle_momentum=False)),
        ("one_cycle", {"rise": 0.2, "start": 0.1, "end": 0.001, "shape": "linear"},
         lambda o: s.OneCycleLR(o, 1.0, STEPS, pct_start=0.2, div_factor=10, final_div_factor=1000,
                                anneal_strategy="linear", cycle_momentum=False)),
        ("one_cycle", {"rise": 0.4, "three_phases": True},
         lambda o: s.OneCycleLR(o, 1.0, STEPS, pct_start=0.4, three_phase=True, cycle_momentum=False)),
        ("cosine", {"warmup": {"steps": 20, "start": 0.1}}, warm(lambda o: s.CosineAnnealingLR(o, STEPS - 20), 20, 0.1)),
        ("step", {"every": 10, "gamma": 0.5, "unit": "step", "warmup": {"steps": 15, "start": 0.25}},
         warm(lambda o: s.StepLR(o, 10, 0.5), 15, 0.25)),
    ]
    for i, (kind, options, make) in enumerate(cases):
        tensors[f"schedule/{i}"] = torch_values(make)
        metadata[f"schedule/{i}"] = json.dumps({"name": kind, **options})

    metric = numpy.round(random.uniform(0.2, 1, STEPS) + numpy.linspace(1, 0, STEPS), 2)
    tensors["plateau/metric"] = metric
    plateaus = [({"factor": 0.5, "patience": 2}, {"factor": 0.5, "patience": 2}),
                ({"mode": "max", "factor": 0.7, "patience": 1, "cooldown": 3, "least": 0.05},
                 {"mode": "max", "factor": 0.7, "patience": 1, "cooldown": 3, "min_lr": 0.05}),
                ({"factor": 0.3, "patience": 3, "threshold": 0.1, "threshold_mode": "absolute"},
                 {"factor": 0.3, "patience": 3, "threshold": 0.1, "threshold_mode": "abs"})]
    for i, (ours, theirs) in enumerate(plateaus):
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
        scheduler = s.ReduceLROnPlateau(optimizer, eps=0, **theirs)
        values = []
        for value in metric:
            scheduler.step(value)
            values.append(optimizer.param_groups[0]["lr"])
        tensors[f"plateau/{i}"] = numpy.array(values)
        metadata[f"plateau/{i}"] = json.dumps({"name": "plateau", **ours})


def lbfgs(tensors, metadata):
    def run(name, weights, loss, calls, **options):
        optimizer = torch.optim.LBFGS(weights, **options)

        def closure():
            optimizer.zero_grad()
            value = loss()
            value.backward()
            return value
        shown, evaluations = [], []
        for _ in range(calls):
            optimizer.step(closure)
            shown.append(numpy.concatenate([w.detach().numpy().reshape(-1) for w in weights]))
            evaluations.append(optimizer.state[weights[0]]["func_evals"])
        tensors[f"lbfgs/{name}"] = numpy.stack(shown)
        metadata[f"lbfgs/{name}"] = json.dumps(evaluations)

    def rosenbrock(w):
        return 100 * (w[1] - w[0] ** 2) ** 2 + (1 - w[0]) ** 2
    for name, options in {"rosenbrock": {"line_search_fn": "strong_wolfe", "max_iter": 4, "history_size": 5},
                          "rosenbrock_plain": {"lr": 0.05, "max_iter": 4, "history_size": 3}}.items():
        w = torch.nn.Parameter(torch.tensor([-1.5, 2.0], dtype=torch.float64))
        run(name, [w], lambda: rosenbrock(w), 12, **options)

    x, y = random.normal(0, 1, (20, 3)), random.normal(0, 1, (20, 2))
    first, bias = random.normal(0, 0.6, (8, 3)), random.normal(0, 0.1, 8)
    second = random.normal(0, 0.4, (2, 8))
    tensors.update({"mlp/x": x, "mlp/y": y, "mlp/first": first, "mlp/bias": bias, "mlp/second": second})
    weights = [torch.nn.Parameter(torch.tensor(v)) for v in (first, bias, second)]
    xs, ys = torch.tensor(x), torch.tensor(y)

    def loss():
        return ((torch.tanh(xs @ weights[0].T + weights[1]) @ weights[2].T - ys) ** 2).mean()
    run("mlp", weights, loss, 8, line_search_fn="strong_wolfe", max_iter=5, history_size=4)


def main():
    torch.set_default_dtype(torch.float64)  # NAdam keeps its product of momenta in the default
    FOLDER.mkdir(exist_ok=True)
    for name, fill in {"optimizers": optimizers, "schedules": schedules, "lbfgs": lbfgs}.items():
        tensors, metadata = {}, {}
        fill(tensors, metadata)
        if name == "optimizers":
            groups(tensors)
            sparse(tensors)
            averages(tensors)
            clipping(tensors)
        write_safetensors(FOLDER / f"{name}.safetensors", tensors, metadata)
        print(f"{name}: {len(tensors)} tensors")


if __name__ == "__main__":
    main()
