#!/usr/bin/env python3
"""PyTorch's eager calls on 8 elements of a GPU, issued back to back: µs a call, as `bench_overhead --device cuda` has them."""

import json
import statistics
import time

import torch

CALLS = 2000


def measured(call, repeats: int) -> float:
    times = []
    for _ in range(repeats + 1):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / CALLS * 1e6)
    return statistics.median(times[1:])


def main() -> None:
    device = torch.device("cuda")
    a, b = torch.randn(8, device=device), torch.randn(8, device=device)
    rows = torch.randn(2, 4, device=device)
    halves = [torch.randn(4, device=device) for _ in range(2)]
    image, weight = torch.randn(1, 1, 4, 4, device=device), torch.randn(1, 1, 3, 3, device=device)
    cases = {"add8": lambda: torch.add(a, b), "relu8": lambda: torch.relu(a), "sum8": lambda: rows.sum(1),
             "softmax8": lambda: torch.softmax(rows, 1), "concat8": lambda: torch.cat(halves), "slice8": lambda: a[1:3],
             "conv8": lambda: torch.nn.functional.conv2d(image, weight, padding=1)}
    with torch.no_grad():
        for name, call in cases.items():
            print(json.dumps({"who": "pytorch", "case": name, "device": "cuda:0", "median_us": measured(call, 50),
                              "version": torch.__version__}), flush=True)


if __name__ == "__main__":
    main()
