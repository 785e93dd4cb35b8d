#!/usr/bin/env python3
"""Strategies to a given test accuracy, with equal workers and with one that is slower: what it took of samples and time.

    bench/to_accuracy.py --build build/release --json bench/results/to-accuracy-2026-11.jsonl
    bench/to_accuracy.py --table bench/results/to-accuracy-2026-11.jsonl      # prints the table of measured runs again

LeNet on Fashion-MNIST as in strategies.py, whose strategies and slowing these are. A run is interrupted at the first
evaluation that reaches the accuracy (--target), or after --cap seconds. All figures are the run's own, from log.jsonl and
summary.json:

    used       samples that gradients were computed from and that the model saw, by all workers
    left out   samples that a worker left out to catch up, or whose gradient came too late, of all that were given out
    behind     the most steps that a worker lay behind the foremost when it began one (asynchronous strategies); with
               parameter servers, that the slowest lay behind one that read the weights
    seconds    of training and evaluating until the accuracy was reached
"""

import argparse
import datetime
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from peer.built import built
from strategies import ALONE, STRATEGIES, commit, machine


def job(args, distribute, folder):
    return {
        "model": {"name": "lenet", "classes": 10},
        "data": {"name": "fashion_mnist", "batch": args.batch, "train_limit": args.samples, "test_limit": args.test},
        "optimizer": {"name": "sgd", "lr": args.lr, "momentum": 0.9},
        "train": {"epochs": 1000, "seed": args.seed, "folder": str(folder), "export": False, "resume": "none"},
        "monitor": {"tensorboard": False, "histograms_every": 0, "scalars_every": 5},
        "distribute": distribute,
    }


def events(folder):
    """Whole lines of the log so far."""
    file = folder / "log.jsonl"
    text = file.read_text() if file.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def reached(args, folder):
    """The first evaluation with the accuracy; None: there is none yet."""
    found = [one for one in events(folder) if one["event"] == "eval" and one.get("test_accuracy", 0) >= args.target]
    return found[0] if found else None


def run(args, name, slowed, work):
    workers = 1 if name == ALONE else args.workers
    slow = [args.stretch] * workers
    if slowed:
        slow[-1] *= args.slow
    folder = work / "run"
    shutil.rmtree(folder, ignore_errors=True)
    file = work / "job.yaml"
    distribute = {"workers": workers, "slow": slow, "threads": workers, **STRATEGIES.get(name, {})}
    file.write_text(json.dumps(job(args, distribute, folder)))
    command = [built(Path(args.build) / "bin" / "starling"), "train", str(file)]
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not reached(args, folder) and time.monotonic() - began < args.cap:
        time.sleep(0.2)
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    if process.returncode not in (0, 130):
        sys.exit(f"{name}: expected it to train, got exit status {process.returncode}:\n{said[-3000:]}")
    return read(args, name, slowed, folder)


def read(args, name, slowed, folder):
    summary = json.loads((folder / "summary.json").read_text())
    log = events(folder)
    first = next(one for one in log if one["event"] == "train")
    goal = reached(args, folder)
    ranks = summary.get("ranks", [])
    first_counters = ranks[0]["counters"] if ranks else {}
    late = first_counters.get("late_samples", 0)
    if first_counters.get("servers.pushes"):  # counted by key: a push of a worker has several
        pushes = sum(rank["counters"].get("pushes", 0) for rank in ranks)
        late = first_counters["servers.late"] / first_counters["servers.pushes"] * pushes * args.batch / len(ranks)
    given = summary["steps"] * args.batch
    left_out = sum(rank["left_out"] for rank in ranks) + late
    return {
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "machine": machine(),
        "strategy": name,
        "workers": max(1, len(ranks)),
        "slow": args.slow if slowed else 1,
        "stretch": args.stretch,
        "target": args.target,
        "cap": args.cap,
        "batch": args.batch,
        "samples_per_epoch": args.samples,
        "reached": goal is not None,
        "steps": summary["steps"],
        "given": given,
        "used": given - left_out,
        "left_out": left_out,
        "left_out_by_rank": [rank["left_out"] for rank in ranks],
        "behind": max((value for rank in ranks for key, value in rank["counters"].items()
                       if key.endswith("most_behind") or key == "servers.gap.largest"), default=0),
        "best": max((one.get("test_accuracy", 0) for one in log if one["event"] == "eval"), default=0),
        "seconds": (goal["time"] - first["time"]) if goal else None,
    }


def table(lines):
    one = lines[-1]
    print(f"\nTest accuracy {one['target']:g}, {max(line['workers'] for line in lines)} workers, batch {one['batch']} of all "
          f"workers, {one['samples_per_epoch']} samples an epoch, at most {one['cap']:g} s; {one['machine']}\n")
    print("| strategy | slow worker | samples used | left out | most behind | wall time |\n|---|---|---|---|---|---|")
    groups = {}
    for line in lines:
        groups.setdefault((line["strategy"], line["slow"]), []).append(line)
    for (name, slow), rounds in groups.items():
        middle = lambda field: statistics.median(line[field] for line in rounds)
        done = all(line["reached"] for line in rounds)
        seconds = f"{middle('seconds'):.0f} s" if done else f"not reached: {middle('best'):.3f}"
        print(f"| {name} | {f'{slow:g} ×' if slow > 1 else 'no'} | {middle('used') / 1000:.0f} k | "
              f"{100 * middle('left_out') / middle('given'):.0f} % | {middle('behind'):.0f} | {seconds} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--json", help="file that gets a line for each run")
    parser.add_argument("--table", help="file of measured runs: print its table, run nothing")
    parser.add_argument("--only", help="strategies, separated by semicolons")
    parser.add_argument("--target", type=float, default=0.88, help="test accuracy")
    parser.add_argument("--cap", type=float, default=120, help="seconds after which a run is interrupted")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--slow", type=float, default=3, help="how much slower the last worker is")
    parser.add_argument("--stretch", type=float, default=1, help="of everyone's computing, by sleeping")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--samples", type=int, default=20000)
    parser.add_argument("--test", type=int, default=4000)
    parser.add_argument("--batch", type=int, default=48)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if args.table:
        return table([json.loads(line) for line in Path(args.table).read_text().splitlines()])
    names = [name.strip() for name in args.only.split(";")] if args.only else [ALONE, *STRATEGIES]
    for name in names:
        if name != ALONE and name not in STRATEGIES:
            sys.exit(f"expected some of {'; '.join([ALONE, *STRATEGIES])}, got {name}")
    lines = []
    with tempfile.TemporaryDirectory() as work:
        for _ in range(args.rounds):
            for name in names:
                for slowed in (False, True):
                    if name == ALONE and slowed:
                        continue
                    lines.append(run(args, name, slowed, Path(work)))
                    print(json.dumps(lines[-1]), file=sys.stderr, flush=True)
                    if args.json:
                        with open(args.json, "a") as file:
                            file.write(json.dumps(lines[-1]) + "\n")
    return table(lines)


if __name__ == "__main__":
    main()
