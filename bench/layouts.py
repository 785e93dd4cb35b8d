#!/usr/bin/env python3
"""What workers store, send and reach by plain data parallelism, ZeRO and layouts on meshes: a gpt with Adam, in processes.

    bench/layouts.py --build build/release [--workers 4] [--width 256] [--depth 6] [--backend gloo]

The figures are the runs' own (summary.json): bytes of weights, gradients that are added up and optimizer state that rank 0
stores, those that `starling inspect layout` tells of the weights and of the peak beforehand, the peak of its allocator with
evaluation and saving, bytes that it sends in a step, and samples a second. A gpt of 100 million weights:

    bench/layouts.py --build build/release --width 768 --depth 14 --heads 12 --batch 4 --steps 2 --limit 400 --only memory
"""

import argparse
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from peer.built import built

JOB = """
model: {{name: gpt, width: {width}, depth: {depth}, heads: {heads}, dropout: 0}}
data: {{name: text, files: [{text}], tokens: characters, window: 64, stride: 16, batch: {batch}, eval_batch: 8, train_limit: {limit}, test_limit: 256}}
optimizer: {{name: adam, lr: 0.001}}
train: {{epochs: 1, steps: {steps}, export: false, save_memory: 0}}
monitor: {{tensorboard: false}}
"""
KINDS = ("weight_bytes", "gradient_bytes", "optimizer_bytes")


def plans(workers):
    """Name of a plan → its section `distribute`."""
    made = {"plain": f"{{workers: {workers}}}"}
    for zero in (1, 2, 3):
        made[f"zero {zero}"] = f"{{workers: {workers}, zero: {zero}}}"
    made["tensor parallel"] = f"{{mesh: {{model: {workers}}}, layout: megatron}}"
    if workers % 2 == 0 and workers > 2:
        half = workers // 2
        made["both"] = f"{{mesh: {{data: {half}, model: 2}}, layout: megatron}}"
        made["both, zero 3"] = f"{{mesh: {{data: {half}, model: 2}}, layout: megatron, zero: 3}}"
    return made


def told(program, job, distribute):
    """Bytes of weights on rank 0 and of its peak, as told before anything runs."""
    text = subprocess.run([program, "inspect", "layout", job, "--set", f"distribute={distribute}"], check=True,
                          capture_output=True, text=True).stdout
    weights = 4 * int(re.search(r"^(\d+) of \d+ parameters", text, re.MULTILINE).group(1))
    return weights, int(re.search(r"^memory of rank 0 .* (\d+) together$", text, re.MULTILINE).group(1))


def run(program, job, folder, distribute, workers, backend):
    command = [program, "launch", "-n", str(workers), job, "--progress", "off", "--set", f"distribute={distribute}",
               "--set", f"train.folder={folder}", "--set", "distribute.threads=1", "--set", f"distribute.backend={backend}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    summary = json.loads((Path(folder) / "summary.json").read_text())
    shutil.rmtree(folder)  # checkpoints are three times the weights
    return summary


def memory_row(name, summary, predicted):
    """Peak of a plan, predicted beside the largest measured: rank 0's, whose checkpoints and evaluations are those of all."""
    state = sum(summary["ranks"][0]["counters"][kind] for kind in KINDS) / 1e6
    measured = summary["peak_bytes"] / 1e6
    return f"| {name} | {state:.1f} | {predicted / 1e6:.1f} | {measured:.1f} | {predicted / 1e6 / measured:.2f} |"


def speed_row(name, summary, told_weights, steps):
    counted = summary["ranks"][0]["counters"]
    weights, gradients, moments = (counted[kind] / 1e6 for kind in KINDS)
    return (f"| {name} | {weights:.1f} | {told_weights / 1e6:.1f} | {gradients:.1f} | {moments:.1f} | {summary['peak_bytes'] / 1e6:.1f} | "
            f"{counted['reduced_bytes_sent'] / steps / 1e6:.2f} | {summary['samples_per_s']:.0f} |")


HEADS = {"memory": "| plan | state MB | predicted peak MB | measured peak MB | predicted / measured |\n|---|---|---|---|---|",
         "all": "| plan | weights MB | told MB | gradients MB | optimizer MB | peak MB | sent a step MB | samples/s |\n"
                "|---|---|---|---|---|---|---|---|"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, help="folder of an optimised build")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--depth", type=int, default=6)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--limit", type=int, default=32000, help="tokens of the text to train on")
    parser.add_argument("--only", choices=["all", "memory"], default="all", help="memory: predicted and measured peaks")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--backend", default="gloo", help="gloo, shared or automatic")
    options = parser.parse_args()
    program = built(Path(options.build) / "bin" / "starling")
    print(HEADS[options.only])
    with tempfile.TemporaryDirectory() as folder:
        job = Path(folder) / "job.yaml"
        text = Path(__file__).resolve().parent.parent / "CHANGELOG.md"
        job.write_text(JOB.format(width=options.width, depth=options.depth, heads=options.heads, text=text, batch=options.batch,
                                  steps=options.steps, limit=options.limit))
        for name, distribute in plans(options.workers).items():
            told_weights, predicted = told(program, str(job), distribute)
            summary = run(program, str(job), f"{folder}/{name}", distribute, options.workers, options.backend)
            row = memory_row(name, summary, predicted) if options.only == "memory" else speed_row(name, summary, told_weights,
                                                                                                  options.steps)
            print(row, flush=True)


if __name__ == "__main__":
    main()
