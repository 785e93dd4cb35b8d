#!/usr/bin/env python3
"""What Python adds to the C++ library: calls of ops, compiled steps, imports, loaders over Python objects.

    PYTHONPATH=build/python/build python bench/python.py --starling build/ci/bin/starling [--overhead build/ci/bench/bench_overhead]
        [--rounds 7] [--json FILE] [ops] [step] [import] [loader]

ops: an addition of 8 elements, beside the same in C++ (bench_overhead) and in PyTorch where that is installed; one thread.
step: a compiled training step of lenet, batch 64, in rounds that take turns with `starling bench lenet`.
import: `import starling` in a new process, with NumPy's part of it apart.
loader: samples a second out of loaders over Python objects, beside those that a compiled step of lenet takes.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import numpy as np

WARM_UP = 200


def per_call(call, inner: int, rounds: int) -> float:
    """Median over rounds of the µs per call."""
    for _ in range(WARM_UP):
        call()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(inner):
            call()
        times.append((time.perf_counter() - start) / inner * 1e6)
    return statistics.median(times)


def in_cpp(program: str) -> float:
    lines = subprocess.run([program, "--json"], capture_output=True, text=True, check=True).stdout.splitlines()
    return next(row["median_us"] for row in map(json.loads, lines) if row["case"] == "add8")


def in_torch(rounds: int):
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(1)
    a, b = torch.randn(8), torch.randn(8)
    return per_call(lambda: a + b, 20000, rounds)


def bench_ops(options) -> dict:
    import starling as sl

    a, b = sl.normal((8,)), sl.normal((8,))
    figures = {"add8_python_us": per_call(lambda: a + b, 20000, options.rounds), "relu8_python_us": per_call(a.relu, 20000, options.rounds)}
    figures["empty_call_us"] = per_call(lambda: None, 20000, options.rounds)
    if options.overhead:
        figures["add8_cpp_us"] = in_cpp(options.overhead)
    torchs = in_torch(options.rounds)
    return figures if torchs is None else {**figures, "add8_torch_us": torchs}


def lenet_step(batch=64):
    import starling as sl

    sl.manual_seed(1)
    net = sl.zoo.lenet()
    optimizer = sl.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)

    @sl.compile
    def step(x, y):
        loss = sl.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step, sl.normal((batch, 1, 28, 28)), sl.randint(0, 10, (batch,))


def timed(step, x, y, seconds: float) -> float:
    """Median ms of a step over some seconds."""
    times, end = [], time.perf_counter() + seconds
    while (start := time.perf_counter()) < end:
        step(x, y)
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def bench_step(options) -> dict:
    step, x, y = lenet_step()
    timed(step, x, y, 0.5)
    command = [options.starling, "bench", "lenet", "--batch", "64", "--phase", "train", "--mode", "compiled", "--seconds", "1", "--json"]
    ours, theirs = [], []
    for _ in range(options.rounds):
        ours.append(timed(step, x, y, 1.0))
        theirs.append(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])["step_ms"])
    ratio = statistics.median(a / b for a, b in zip(ours, theirs))
    return {"step_python_ms": statistics.median(ours), "step_cpp_ms": statistics.median(theirs), "ratio": ratio}


def import_seconds(text: str) -> float:
    timing = f"import time; start = time.perf_counter(); {text}; print(time.perf_counter() - start)"
    return float(subprocess.run([sys.executable, "-c", timing], capture_output=True, text=True, check=True).stdout)


def bench_import(options) -> dict:
    return {
        "import_s": statistics.median(import_seconds("import starling") for _ in range(options.rounds)),
        "import_numpy_s": statistics.median(import_seconds("import numpy") for _ in range(options.rounds)),
    }


class Pictures:
    """Pictures of 28 by 28 as bytes in memory, made floats by Python code sample by sample."""

    def __init__(self, n=8192):
        self.pixels = np.random.default_rng(0).integers(0, 256, (n, 1, 28, 28), np.uint8)
        self.labels = np.arange(n) % 10

    def __len__(self):
        return len(self.pixels)

    def __getitem__(self, i):
        return self.pixels[i].astype(np.float32) / 255, int(self.labels[i])

    def stream(self):
        return (self[i] for i in range(len(self)))


class Iterable:
    def __init__(self, pictures):
        self.pictures = pictures

    def __iter__(self):
        return self.pictures.stream()


def samples_per_s(loader, use=None) -> float:
    total, start = 0, time.perf_counter()
    for x, y in loader:
        total += len(y)
        if use:
            use(x, y)
    if use:
        use(x, y).item()
    return total / (time.perf_counter() - start)


def bench_loader(options) -> dict:
    import starling as sl

    step, x, y = lenet_step()
    timed(step, x, y, 0.5)
    pictures = Pictures()
    kinds = {
        "data_set": lambda: sl.data.Loader(pictures, batch=64, workers=2),
        "iterable": lambda: sl.data.Loader(Iterable(pictures), batch=64),
        "iterable_two_processes": lambda: sl.data.Loader(Iterable(pictures), batch=64, workers=2, processes=True),
    }
    figures = {"lenet_alone_samples_per_s": 64e3 / timed(step, x, y, 2.0)}
    for name, make in kinds.items():
        figures[f"{name}_alone"] = statistics.median(samples_per_s(make()) for _ in range(3))
        figures[f"{name}_with_lenet"] = statistics.median(samples_per_s(make(), step) for _ in range(3))
    return figures


BENCHES = {"ops": bench_ops, "step": bench_step, "import": bench_import, "loader": bench_loader}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benches", nargs="*", choices=[[], *BENCHES], default=[])
    parser.add_argument("--starling", default="build/ci/bin/starling")
    parser.add_argument("--overhead", default="")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    figures = {}
    for name in options.benches or BENCHES:
        made = BENCHES[name](options)
        figures.update(made)
        for key, value in made.items():
            print(f"{key:<32} {value:10.4g}", flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"cores": os.cpu_count(), **figures}, file, indent=1)


if __name__ == "__main__":
    main()
