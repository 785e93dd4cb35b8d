#!/usr/bin/env python3
"""Times the updates of optimizers beside PyTorch's, in turns: least and 10th percentile of all rounds, and ratios.

    python3 bench/optimizer/compare.py build/ci/bench/bench_optimizer [--threads 2] [--rounds 20] [--sets sae_big,25m]

PyTorch runs fused=True and foreach=True; Lion, which it lacks, is written with its foreach functions.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from peer.built import built, torch_or_end  # noqa: E402

torch = torch_or_end()

SETS = {"25m": [(1024, 1024), (1024,), (1024,)] * 24}
KINDS = ["sgd", "momentum", "adam", "adamw", "lion"]
REPEATS = 10


class Lion:
    """w -= lr * (sign(b1 m + (1 - b1) g) + decay w), by functions over all tensors."""

    def __init__(self, parameters, lr):
        self.parameters, self.lr = parameters, lr
        self.means = [torch.zeros_like(p) for p in parameters]

    @torch.no_grad()
    def step(self):
        gradients = [p.grad for p in self.parameters]
        update = torch._foreach_lerp(self.means, gradients, 0.1)
        torch._foreach_sign_(update)
        torch._foreach_add_(self.parameters, update, alpha=-self.lr)
        torch._foreach_lerp_(self.means, gradients, 0.01)


def torch_optimizer(kind, way, parameters):
    options = {"lr": 1e-6, way: True}
    if kind == "lion":
        return Lion(parameters, 1e-6)
    if kind in ("sgd", "momentum"):
        return torch.optim.SGD(parameters, momentum=0.9 if kind == "momentum" else 0.0, **options)
    return {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[kind](parameters, **options)


def torch_case(kind, way, shapes):
    parameters = [torch.nn.Parameter(torch.randn(s)) for s in shapes]
    for p in parameters:
        p.grad = torch.randn_like(p)
    optimizer = torch_optimizer(kind, way, parameters)
    for _ in range(3):
        optimizer.step()

    def run():
        best = 1e30
        for _ in range(REPEATS):
            start = time.perf_counter()
            optimizer.step()
            best = min(best, (time.perf_counter() - start) * 1e3)
        return best
    return run


def p10(values):
    return sorted(values)[len(values) // 10]


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("program")
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--rounds", type=int, default=20)
    options.add_argument("--sets", default="sae_big,25m")
    options = options.parse_args()
    torch.set_num_threads(options.threads)
    ours = subprocess.Popen([built(options.program), str(options.threads), str(REPEATS)], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)

    def ask(line):
        ours.stdin.write(line + "\n")
        ours.stdin.flush()
        return ours.stdout.readline()

    print(f"{options.threads} threads, {options.rounds} rounds of {REPEATS} steps; ms, least (10th percentile)")
    for name in options.sets.split(","):
        shapes = SETS.get(name) or [tuple(map(int, s.split("x"))) for s in ask(f"shapes {name}").split()]
        print(f"{name}: {sum(torch.Size(s).numel() for s in shapes) / 1e6:.1f} M parameters in {len(shapes)} tensors")
        for kind in KINDS:
            ways = ["foreach"] if kind == "lion" else ["fused", "foreach"]
            cases = {way: torch_case(kind, way, shapes) for way in ways}
            times = {"starling": [], **{way: [] for way in ways}}
            for _ in range(options.rounds):
                times["starling"].append(float(ask(f"{kind} {name}")))
                for way in ways:
                    times[way].append(cases[way]())
            text = ", ".join(f"{way} {min(t):.3f} ({p10(t):.3f})" for way, t in times.items())
            ratios = ", ".join(f"{way}/starling {min(times[way]) / min(times['starling']):.2f}" for way in ways)
            print(f"  {kind:9} {text}; {ratios}", flush=True)
    ours.stdin.close()
    ours.wait()


if __name__ == "__main__":
    main()
