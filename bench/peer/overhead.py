#!/usr/bin/env python3
"""PyTorch's cost per tiny op and per tiny training step, 1 thread, in µs: what stands beside our bench/overhead.

    bench/peer/overhead.py [--repeats N] [--json]
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])
os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

from peer import environment

environment.reexec()

import torch
from torch import nn

from peer import modes
from peer.clock import percentile


def measure(call, inner: int, repeats: int) -> dict:
    """Median and p10 of the µs per call over `repeats` runs of `inner` calls."""
    for _ in range(inner):
        call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(inner):
            call()
        times.append((time.perf_counter() - start) / inner * 1e6)
    return {"median_us": percentile(times, 0.5), "p10_us": percentile(times, 0.1)}


def add_cases() -> dict:
    a, b = torch.randn(8), torch.randn(8)
    out = torch.empty(8)

    def added():
        return a + b

    def added_in_place():
        return torch.add(a, b, out=out)
    return {"add8": added, "add8 into a given tensor": added_in_place}


def tiny_mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))


def step_cases() -> dict:
    x, y = torch.randn(8, 8), torch.randint(8, (8,))
    cases = {}
    for mode in ["eager", "compile"]:
        for variant, step in modes.train_variants(mode, False, tiny_mlp, x, y).items():
            cases[f"tiny step {mode} {variant.split('+')[1]}"] = step
    return cases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--json", action="store_true", help="one JSON line per case")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for inner, cases in [(2000, add_cases()), (100, step_cases())]:
        for name, call in cases.items():
            result = {"case": name, **measure(call, inner, options.repeats), "torch": torch.__version__}
            if options.json:
                print(json.dumps(result), flush=True)
            else:
                print(f"{name:<30} {result['median_us']:9.2f} µs (p10 {result['p10_us']:.2f})", flush=True)


if __name__ == "__main__":
    main()
