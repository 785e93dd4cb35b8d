#!/usr/bin/env python3
"""State of each worker with distribute.zero 0 to 3: a gpt with Adam and accumulated gradients, in processes.

    bench/zero.py --build build/release [--workers 4] [--width 256] [--depth 6]

The figures are the runs' own (summary.json): bytes of weights, gradients and optimizer state that rank 0 stores, beside
what the law says, and the peak of its allocator, with start, evaluation, activations and saving. Over Gloo, since with
shared memory part of it lies outside of the allocator.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

from peer.built import built

JOB = """
model: {{name: gpt, width: {width}, depth: {depth}, heads: 8, dropout: 0}}
data: {{name: text, files: [{text}], tokens: characters, window: 32, stride: 32, batch: 8, eval_batch: 8}}
optimizer: {{name: adam, lr: 0.001}}
train: {{epochs: 1, steps: 2, accumulate: 2, export: false, save_memory: 0}}
monitor: {{tensorboard: false}}
"""
KINDS = ("weight_bytes", "gradient_bytes", "optimizer_bytes")


def law(zero, workers):
    """Bytes a weight, f32 Adam."""
    return [16, 8 + 8 / workers, 4 + 12 / workers, 16 / workers][zero]


def run(program, job, folder, zero, workers):
    command = [program, "launch", "-n", str(workers), job, "--progress", "off", "--set", f"distribute.zero={zero}",
               "--set", f"train.folder={folder}", "--set", "distribute.threads=1", "--set", "distribute.backend=gloo"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return json.loads((Path(folder) / "summary.json").read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, help="folder of an optimised build")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--depth", type=int, default=6)
    options = parser.parse_args()
    program = built(Path(options.build) / "bin" / "starling")
    print("| zero | weights MB | gradients MB | optimizer MB | bytes a weight | law | peak MB |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        job = Path(folder) / "job.yaml"
        text = Path(__file__).resolve().parent.parent / "README.md"
        job.write_text(JOB.format(width=options.width, depth=options.depth, text=text))
        weights = 0
        for zero in range(4):
            summary = run(program, str(job), f"{folder}/{zero}", zero, options.workers)
            counted = summary["ranks"][0]["counters"]
            stored = [counted[kind] for kind in KINDS]
            weights = weights or stored[0] / 4
            cells = [f"{one / 1e6:.1f}" for one in stored]
            print(f"| {zero} | {' | '.join(cells)} | {sum(stored) / weights:.2f} | {law(zero, options.workers):.2f} | "
                  f"{summary['peak_bytes'] / 1e6:.1f} |", flush=True)


if __name__ == "__main__":
    main()
