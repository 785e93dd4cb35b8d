#!/usr/bin/env python3
"""Compares single ops with PyTorch 2.x on the CPU at the shapes of the benchmark networks, interleaved.

    bench/compare_ops.py --threads 1,2 --json ops.jsonl [--only conv2d,linear]

For each case of bench/peer/op_cases.py: results and gradients of both sides on the same operands must agree; then slices
alternate (A B A B …), forward alone (inference) and forward with gradients. The bar is the better of plain and
channels_last memory on the peer's side; ratio = peer / ours. Exit codes as compare.py.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from peer import environment
from peer.built import built
from peer.client import BENCH, environment_for


class Side:
    """One of the two programs; each request is a line, each answer another."""

    def __init__(self, command, threads):
        self.process = subprocess.Popen(command, cwd=BENCH, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env=environment_for(threads))

    def ask(self, do, **arguments):
        self.process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.process.args[0]} ended during '{do}' (code {self.process.wait()})")
        reply = json.loads(line)
        if "error" in reply:
            raise RuntimeError(reply["error"])
        return reply

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def difference(ours, theirs):
    """The largest difference of each result relative to its largest value, the largest of all."""
    from safetensors.numpy import load_file
    a, b = load_file(ours), load_file(theirs)
    if a.keys() != b.keys():
        raise RuntimeError(f"expected the same results, got {sorted(a)} and {sorted(b)}")
    worst = 0.0
    for name, x in a.items():
        if x.shape != b[name].shape:
            raise RuntimeError(f"{name}: expected one shape, got {x.shape} and {b[name].shape}")
        scale = max(1e-3, float(abs(b[name]).max(initial=0)))
        worst = max(worst, float(abs(x - b[name]).max(initial=0)) / scale)
    return worst


def measure(sides, phase, options, threads):
    """Median over rounds of each side's slices."""
    slices = {name: [] for name in sides}
    for _ in range(options.rounds):
        for name, side in sides.items():
            slices[name].append(side.ask("slice", phase=phase, seconds=options.seconds, threads=threads))
    return {name: statistics.median(s["p10_ms"] for s in all_slices) for name, all_slices in slices.items()}


def compare(number, case, sides, options, threads, folder):
    file = str(folder / "operands.safetensors")
    case.write(file)
    request = {"op": case.op, "file": file, "grad": case.grads, "attrs": case.attrs, "number": number}
    if case.forward:
        request["forward"] = case.forward
    for name, side in sides.items():
        side.ask("prepare", **request, channels_last=name == "channels_last")
    results = {name: str(folder / f"{name}.safetensors") for name in ("ours", "plain")}
    for name, result in results.items():
        sides[name].ask("values", file=result, threads=threads)
    off = difference(results["ours"], results["plain"])
    if off > case.tolerance:
        raise RuntimeError(f"results differ by {off:.2g} of the largest value")
    line = {"case": case.name, "op": case.op, "threads": threads, "difference": off}
    used = {name: side for name, side in sides.items() if name != "channels_last" or case.images}
    for phase in ("forward", "train"):
        times = measure(used, phase, options, threads)
        ours = times.pop("ours")
        best = min(times, key=times.get)
        line[phase] = {"ours_ms": ours, "peer_ms": times[best], "peer_mode": best, "ratio": times[best] / ours}
    return line


def row(line):
    text = f"{line['case']:<44} {line['threads']:>3}"
    for phase in ("forward", "train"):
        t = line[phase]
        text += f" {t['ours_ms']:>9.3f} {t['peer_ms']:>9.3f} {t['ratio']:>5.2f}x"
    return text


def run(options, python):
    from peer.op_cases import CASES
    failed, output = False, open(options.json, "a") if options.json else None
    print(f"{'case':<44} {'thr':>3} {'fwd ours':>9} {'peer':>9} {'ratio':>6} {'f+b ours':>9} {'peer':>9} {'ratio':>6}")
    for threads in options.threads:
        worker = [str(python), "-m", "peer.op_worker", str(threads)]
        sides = {"ours": Side([options.program], threads), "plain": Side(worker, threads),
                 "channels_last": Side(worker, threads)}
        with tempfile.TemporaryDirectory(prefix="starling-ops-") as name:
            for number, case in enumerate(CASES):
                if options.only and not any(part in case.name for part in options.only):
                    continue
                try:
                    line = compare(number, case, sides, options, threads, Path(name))
                except RuntimeError as error:
                    print(f"{case.name:<44} FAILED: {error}", flush=True)
                    failed = True
                    continue
                print(row(line), flush=True)
                if output:
                    print(json.dumps(line), file=output, flush=True)
        for side in sides.values():
            side.close()
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=lambda text: [int(t) for t in text.split(",")], default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.25, help="length of one slice")
    parser.add_argument("--only", type=lambda text: text.split(","), help="cases whose name has one of these in it")
    parser.add_argument("--json", metavar="FILE", help="one JSON line a case is added there")
    parser.add_argument("--program", default=str(environment.ROOT / "build" / "release" / "bench" / "bench_ops"))
    options = parser.parse_args()
    built(options.program)
    environment.reexec()
    return run(options, Path(sys.executable))


if __name__ == "__main__":
    sys.exit(main())
