#!/usr/bin/env python3
"""What Python adds to the C++ library: calls of ops, compiled steps, imports, loaders over Python objects.

    PYTHONPATH=build/python/build python bench/python.py --starling build/ci/bin/starling [--overhead build/ci/bench/bench_overhead]
        [--rounds 7] [--json FILE] [ops] [step] [import] [loader]

ops: calls on 8 elements (of a convolution 16), by functions, methods and the table of ops, with lists, slices and arrays, in rounds that take turns with the same in C++ (bench_overhead) and in PyTorch where
    that is installed; one thread.
step: a compiled training step of lenet and of mlp, batch 64, in rounds that take turns with `starling bench`.
import: `import starling` in a new process, with NumPy's part of it apart.
loader: samples a second out of loaders over Python objects, and which part of the speed of a compiled step of lenet over one batch is left
    when it trains from them: with all threads, whose cores the loader's work takes, and with one.
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


def us_of(call, inner: int) -> float:
    start = time.perf_counter()
    for _ in range(inner):
        call()
    return (time.perf_counter() - start) / inner * 1e6


# Ways to call, and what C++ calls for the same: ops of the registry (sl.op) are called by their table, an array beside a tensor is copied.
OPS = {
    "add8": "add8", "relu8": "relu8", "sum8": "sum8", "softmax8": "softmax8", "concat8": "concat8", "slice8": "slice8", "conv8": "conv8",
    "op_add8": "add8", "op_sum8": "sum8", "op_conv8": "conv8", "array8": "add8",
}  # fmt: skip


def in_cpp(program: str) -> dict:
    command = [program, "--json", "--repeats", "10", *(part for name in sorted(set(OPS.values())) for part in ("--only", name))]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return {row["case"]: row["median_us"] for row in map(json.loads, lines)}


def calls_of(random, module, concat, conv2d, **axis) -> dict:
    a, b, rows, halves = random((8,)), random((8,)), random((2, 4)), [random((4,)), random((4,))]
    image, weight = random((1, 1, 4, 4)), random((1, 1, 3, 3))
    return {
        "add8": lambda: a + b,
        "relu8": lambda: module.relu(a),
        "sum8": lambda: rows.sum(**axis),
        "softmax8": lambda: module.softmax(rows, **axis),
        "concat8": lambda: concat(halves),
        "slice8": lambda: a[1:3],
        "conv8": lambda: conv2d(image, weight, padding=1),
    }


def in_starling() -> dict:
    import starling as sl

    a, b, rows, array = sl.normal((8,)), sl.normal((8,)), sl.normal((2, 4)), np.ones(8, np.float32)
    image, weight = sl.normal((1, 1, 4, 4)), sl.normal((1, 1, 3, 3))
    return {
        **calls_of(sl.normal, sl, sl.concat, sl.conv2d, axis=1),
        "op_add8": lambda: sl.op.add(a, b),
        "op_sum8": lambda: sl.op.sum(rows, axes=1),
        "op_conv8": lambda: sl.op.conv2d(image, weight, padding=1),
        "array8": lambda: a + array,
    }


def in_torch() -> dict:
    try:
        import torch
    except ImportError:
        return {}
    torch.set_num_threads(1)
    a, array = torch.randn(8), np.ones(8, np.float32)
    own = calls_of(torch.randn, torch, torch.cat, torch.nn.functional.conv2d, dim=1)
    return {**own, "array8": lambda: a + torch.from_numpy(array)}


def bench_ops(options) -> dict:
    """Ours, C++'s and PyTorch's take turns; of each the median over the rounds, and of the differences in a round theirs."""
    kinds = {"python": in_starling(), "torch": in_torch()}
    times = {}
    for call in [call for calls in kinds.values() for call in calls.values()]:
        us_of(call, WARM_UP)
    for _ in range(options.rounds):
        for kind, calls in kinds.items():
            for name, call in calls.items():
                times.setdefault(f"{name}_{kind}_us", []).append(us_of(call, 10000))
        for name, us in (in_cpp(options.overhead) if options.overhead else {}).items():
            times.setdefault(f"{name}_cpp_us", []).append(us)
        times.setdefault("empty_call_us", []).append(us_of(lambda: None, 10000))
    figures = {name: statistics.median(each) for name, each in times.items()}
    for name, theirs in OPS.items() if options.overhead else ():
        figures[f"{name}_over_cpp_us"] = statistics.median(a - b for a, b in zip(times[f"{name}_python_us"], times[f"{theirs}_cpp_us"]))
    return figures


SAMPLES = {"lenet": (1, 28, 28), "mlp": (784,)}


def step_of(name="lenet", batch=64, threads=0):
    import starling as sl

    sl.manual_seed(1)
    net = getattr(sl.zoo, name)()
    optimizer = sl.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)

    def step(x, y):
        loss = sl.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return sl.compile(step, threads=threads), sl.normal((batch, *SAMPLES[name])), sl.randint(0, 10, (batch,))


def timed(step, x, y, seconds: float) -> float:
    """Median ms of a step over some seconds."""
    times, end = [], time.perf_counter() + seconds
    while (start := time.perf_counter()) < end:
        step(x, y)
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def bench_step(options) -> dict:
    figures = {}
    for name in SAMPLES:
        step, x, y = step_of(name)
        timed(step, x, y, 0.5)
        command = [options.starling, "bench", name, "--batch", "64", "--phase", "train", "--mode", "compiled", "--seconds", "1", "--json"]
        ours, theirs = [], []
        for _ in range(options.rounds):
            ours.append(timed(step, x, y, 1.0))
            theirs.append(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])["step_ms"])
        figures[f"{name}_step_python_ms"] = statistics.median(ours)
        figures[f"{name}_step_cpp_ms"] = statistics.median(theirs)
        figures[f"{name}_step_ratio"] = statistics.median(a / b for a, b in zip(ours, theirs))
    return figures


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
            use(x, y)  # compiled steps have ended when they return
    return total / (time.perf_counter() - start)


def bench_loader(options) -> dict:
    import starling as sl

    pictures = Pictures()
    kinds = {
        "data_set": lambda: sl.data.Loader(pictures, batch=64, workers=2),
        "iterable": lambda: sl.data.Loader(Iterable(pictures), batch=64),
        "iterable_two_processes": lambda: sl.data.Loader(Iterable(pictures), batch=64, workers=2, processes=True),
    }
    users = {"lenet": step_of(), "lenet_one_thread": step_of(threads=1)}
    for step, x, y in users.values():
        timed(step, x, y, 0.5)
    times = {}
    for _ in range(options.rounds):
        for name, make in kinds.items():
            times.setdefault(f"{name}_alone_samples_per_s", []).append(samples_per_s(make()))
        for user, (step, x, y) in users.items():
            alone = samples_per_s([(x, y)] * (len(pictures) // 64), step)
            times.setdefault(f"{user}_samples_per_s", []).append(alone)
            for name, make in kinds.items():
                times.setdefault(f"{name}_part_of_{user}", []).append(samples_per_s(make(), step) / alone)
    return {name: statistics.median(each) for name, each in times.items()}


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
            print(f"{key:<48} {value:10.4g}", flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"cores": os.cpu_count(), **figures}, file, indent=1)


if __name__ == "__main__":
    main()
