#!/usr/bin/env python3
"""Every strategy on the same job, with equal workers and with one that is slower than the others.

    bench/strategies.py --build build/release --json bench/results/strategies-2026-11.jsonl [--processes] [--rounds 1]
    bench/strategies.py --table bench/results/strategies-2026-11.jsonl      # prints the table of measured runs again

LeNet on Fashion-MNIST with 4 workers, `starling train`; with --processes `starling launch -n 4`, with --both one after
the other. Workers stand for machines of their own: each one's computing is stretched (distribute.slow, by sleeping) as
often as workers share a core, times two, so that they do not take each other's time, and the slow one's by --slow
times that. All figures are the runs' own: summary.json (what each rank did and waited for, what its strategy counted)
and log.jsonl (wall time of the training between the first and the last record, evaluations included).

    updates    of weights, by all workers together; one that all of them make alike counts once. With servers: those that
               these made of each key
    unused     share of the samples whose gradients came too late, or were left out by a worker that had to catch up
    portions   of Sandblaster's that several workers computed, of which one counts
    MB sent    by all ranks together, to train; nothing is counted of starting, evaluating and saving
    waits      share of the workers' time that went by waiting for others: the mean, and that of the slow one alone
    slow ÷ even  wall time with the slow worker over that without
"""

import argparse
import datetime
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from peer.built import built

STRATEGIES = {
    "allreduce": {"strategy": "allreduce"},
    "backup_workers": {"strategy": "backup_workers", "backups": 1},
    "local_sgd": {"strategy": "local_sgd", "every": 8},
    "easgd": {"strategy": "easgd", "every": 8},
    "easgd, asynchronous": {"strategy": "easgd", "every": 8, "asynchronous": True},
    "bmuf": {"strategy": "bmuf", "every": 8},
    "emso": {"strategy": "emso", "inner": 2},
    "hogwild": {"strategy": "hogwild"},
    "h2o": {"strategy": "h2o", "every": 8},
    "async": {"strategy": "async", "servers": 2},
    "ssp, staleness 3": {"strategy": "ssp", "servers": 2, "staleness": 3},
    "downpour, every 4": {"strategy": "downpour", "servers": 2, "n_push": 4, "n_fetch": 4},
    "nexus": {"strategy": "nexus", "servers": 2, "layers": [{"name": "fc*.weight", "every": 4}]},
    "sync_server": {"strategy": "sync_server", "servers": 2},
    "sync_server, 1 backup": {"strategy": "sync_server", "servers": 2, "backups": 1},
    "poseidon": {"strategy": "poseidon", "servers": 2},
    "project_adam": {"strategy": "project_adam", "servers": 2},
    "async, groups of 2": {"strategy": "async", "groups": 2, "servers": 2},
    "kvstore, groups of 2": {"strategy": "kvstore", "groups": 2, "servers": 2},
    "kvstore, asynchronous": {"strategy": "kvstore", "update": "async", "groups": 2, "servers": 2},
    "sandblaster": {"strategy": "sandblaster", "servers": 2},
}
ALONE = "one worker"


def job(args, distribute, folder):
    """JSON is YAML, too."""
    return {
        "model": {"name": "lenet", "classes": 10},
        "data": {"name": "fashion_mnist", "batch": args.batch, "train_limit": args.samples, "test_limit": args.test},
        "optimizer": {"name": "sgd", "lr": args.lr, "momentum": 0.9},
        "train": {"epochs": args.epochs, "seed": args.seed, "folder": str(folder), "export": False, "resume": "none"},
        "monitor": {"tensorboard": False, "histograms_every": 0, "scalars_every": 5},
        "distribute": distribute,
    }


def distribution(args, name, slow):
    """The section `distribute`; of groups the topology tells the workers."""
    options = dict(STRATEGIES.get(name, {}))
    made = {"workers": len(slow), "slow": slow, "threads": len(slow)}
    groups = options.pop("groups", 0)
    if groups:
        made["topology"] = {"worker_groups": groups, "workers_per_group": len(slow) // groups}
    return {**made, **options}


def run(args, name, slowed, processes, work):
    workers = 1 if name == ALONE else args.workers
    slow = [args.stretch] * workers
    if slowed:
        slow[-1] *= args.slow
    distribute = distribution(args, name, slow)
    folder = work / "run"
    shutil.rmtree(folder, ignore_errors=True)
    file = work / "job.yaml"
    file.write_text(json.dumps(job(args, distribute, folder)))
    program = built(Path(args.build) / "bin" / "starling")
    command = [program, "launch", "-n", str(workers), str(file)] if processes else [program, "train", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=args.timeout, check=False)
    if done.returncode != 0:
        sys.exit(f"{name}: expected it to train, got exit status {done.returncode}:\n{done.stderr[-3000:]}")
    return read(args, name, slowed, processes, folder)


def read(args, name, slowed, processes, folder):
    summary = json.loads((folder / "summary.json").read_text())
    events = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    first = next(event for event in events if event["event"] == "train")
    last = events[-1]
    assert last["event"] == "end" and last["how"] == "done", last
    ranks = summary.get("ranks", [])
    counted = counts(name, summary, ranks, args)
    waits = [rank["comm_wait"] for rank in ranks] or [0.0]
    return {
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "machine": machine(),
        "workers": max(1, len(ranks)),
        "as": "processes" if processes else "threads",
        "strategy": name,
        "options": STRATEGIES.get(name, {}),
        "slow": args.slow if slowed else 1,
        "stretch": args.stretch,
        "net": "lenet",
        "samples_per_epoch": args.samples,
        "epochs": args.epochs,
        "batch": args.batch,
        "seed": args.seed,
        "steps": summary["steps"],
        **counted,
        "sent": sum(rank["sent"] for rank in ranks),
        "received": sum(rank["received"] for rank in ranks),
        "test_accuracy": summary["metrics"]["test_accuracy"],
        "seconds": last["time"] - first["time"],
        "steps_timed": last["step"] - first["step"],
        "wait_share": statistics.mean(waits),
        "wait_share_of_slow": waits[-1],
        "wait_share_by_rank": waits,
        "straggler": summary.get("straggler"),
    }


def served(name, summary, ranks, args):
    """What servers count they count by key: of a push of all layers, once for each."""
    counters = ranks[0]["counters"]
    keys = counters["servers.keys"]
    if "procedure.evaluations" in counters:
        return {"updates": summary["steps"], "unused": 0.0, "late": 0, "evaluations": counters["procedure.evaluations"],
                "portions_duplicated": counters["servers.portions_duplicated"]}
    portion = args.batch / (STRATEGIES[name].get("groups") or args.workers)
    late = portion * counters["servers.late"] / keys
    staleness = {int(bar): count for bar, count in bars(counters, "servers.staleness.")}
    pushes = sum(staleness.values())
    return {"updates": round(counters["servers.updates"] / keys), "unused": late / (summary["steps"] * args.batch),
            "late": round(late), "dropped_pushes": counters["servers.repeated_portions"] / keys,
            "staleness": sum(bar * count for bar, count in staleness.items()) / pushes if pushes else 0.0,
            "staleness_largest": counters["servers.staleness.largest"]}


def bars(counters, prefix):
    return [(name[len(prefix):], value) for name, value in counters.items()
            if name.startswith(prefix) and name[len(prefix):].isdigit()]


def counts(name, summary, ranks, args):
    """Updates, and what became of the samples."""
    given = summary["steps"] * args.batch
    counters = [rank["counters"] for rank in ranks]
    left_out = [rank["left_out"] for rank in ranks]
    if counters and "servers.keys" in counters[0]:
        return {**served(name, summary, ranks, args), "left_out_by_rank": left_out}
    late = counters[0].get("late_samples", 0) if ranks else 0
    if name in ("local_sgd", "easgd", "easgd, asynchronous", "bmuf"):
        updates = sum(one["steps"] for one in counters)
    elif name == "emso":
        updates = sum(one["inner_steps"] for one in counters)
    elif name in ("hogwild", "h2o"):
        updates = sum(one.get("updates", one.get("inside.updates", 0)) for one in counters)
    else:
        updates = summary["steps"]
    unused = (sum(left_out) + late) / given
    return {"updates": int(updates), "unused": unused, "left_out_by_rank": left_out, "late": late}


def commit():
    found = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return found.stdout.strip()


def machine():
    cores = len(os.sched_getaffinity(0))
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return f"{cores} cores, {line.split(':')[1].strip()}"
    return f"{cores} cores"


def medians(lines):
    """One line for each strategy and case: the median of its rounds."""
    groups = {}
    for line in lines:
        groups.setdefault((line["as"], line["strategy"], line["slow"]), []).append(line)
    middle = {}
    for key, rounds in groups.items():
        middle[key] = dict(rounds[0])
        for field, value in rounds[0].items():
            if isinstance(value, (int, float)) and not isinstance(value, bool) and field != "straggler":
                middle[key][field] = statistics.median(line[field] for line in rounds)
    return middle


def table(lines):
    middle = medians(lines)
    head = ["strategy", "slow worker", "updates", "unused", "MB sent", "MB received", "test accuracy", "wall time",
            "waits (all, slow one)", "slow ÷ even", "straggler named"]
    rows = []
    for (kind, name, slow), line in middle.items():
        even = middle.get((kind, name, 1))
        times = f"{line['seconds'] / even['seconds']:.2f}" if slow > 1 and even else ""
        alone = name == ALONE
        waits = "" if alone else f"{100 * line['wait_share']:.0f} %, {100 * line['wait_share_of_slow']:.0f} %"
        named = "" if alone else "none" if line["straggler"] is None else f"rank {line['straggler']}"
        rows.append([name, f"{slow:g} ×" if slow > 1 else "no", f"{line['updates']:.0f}",
                     f"{100 * line['unused']:.0f} %", f"{line['sent'] / 1e6:.0f}", f"{line['received'] / 1e6:.0f}",
                     f"{line['test_accuracy']:.3f}", f"{line['seconds']:.1f} s", waits, times, named])
    text = "| " + " | ".join(head) + " |\n" + "|" + "---|" * len(head) + "\n"
    return text + "".join("| " + " | ".join(row) + " |\n" for row in rows)


def tables(lines):
    for kind in dict.fromkeys(line["as"] for line in lines):
        chosen = [line for line in lines if line["as"] == kind]
        one = chosen[-1]
        print(f"\n{one['workers']} workers as {kind}, {one['samples_per_epoch']} samples, {one['epochs']} epochs, "
              f"batch {one['batch']} of all workers, computing stretched {one['stretch']:g} ×; {one['machine']}\n")
        print(table(chosen))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--json", help="file that gets a line for each run")
    parser.add_argument("--table", help="file of measured runs: print its table, run nothing")
    parser.add_argument("--processes", action="store_true", help="workers are processes of `starling launch`")
    parser.add_argument("--both", action="store_true", help="threads first, then processes")
    parser.add_argument("--only", help="strategies, separated by semicolons")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--slow", type=float, default=3, help="how much slower the last worker is")
    parser.add_argument("--stretch", type=float, help="of everyone's computing; by default 2 · workers ÷ cores")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--samples", type=int, default=8000)
    parser.add_argument("--test", type=int, default=2000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=300, help="seconds that one run may take")
    args = parser.parse_args()
    if args.table:
        return tables([json.loads(line) for line in Path(args.table).read_text().splitlines()])
    if args.stretch is None:
        args.stretch = max(1.0, 2 * args.workers / len(os.sched_getaffinity(0)))
    names = [name.strip() for name in args.only.split(";")] if args.only else [ALONE, *STRATEGIES]
    for name in names:
        if name != ALONE and name not in STRATEGIES:
            sys.exit(f"expected some of {'; '.join([ALONE, *STRATEGIES])}, got {name}")
    kinds = [False, True] if args.both else [args.processes]
    lines = []
    with tempfile.TemporaryDirectory() as work:
        for processes in kinds:
            for _ in range(args.rounds):
                for name in names:
                    for slowed in (False, True):
                        if name == ALONE and slowed:
                            continue
                        line = run(args, name, slowed, processes, Path(work))
                        lines.append(line)
                        print(f"{line['as']:9} {name:20} slow {line['slow']:g}: {line['seconds']:6.1f} s, accuracy "
                              f"{line['test_accuracy']:.3f}, waits {100 * line['wait_share']:.0f} %, straggler "
                              f"{line['straggler']}", file=sys.stderr, flush=True)
                        if args.json:
                            with open(args.json, "a") as file:
                                file.write(json.dumps(line) + "\n")
    return tables(lines)


if __name__ == "__main__":
    main()
