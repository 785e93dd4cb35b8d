#!/usr/bin/env python3
"""Loader throughput beside PyTorch's DataLoader, measured in turn: MB of batches for each second of processor time,
which is what one core does, and hardly depends on what else runs on the machine.

    bench/loader/compare.py --python .venv-bench/bin/python --build build/ci/bench --rounds 3 --json loader.json

A ratio is the median of the rounds' ratios. Exit codes: 0 all measured, 1 one failed, 2 wrong usage.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from peer.built import built  # noqa: E402

HERE = Path(__file__).resolve().parent
CASES = [("memory", "memory"), ("memory", "memory_batched"), ("augmented", "augmented"), ("disk", "disk"),
         ("indexed", "indexed")]


def measure(call):
    done = subprocess.run([str(part) for part in call], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, call))} ended with code {done.returncode}:\n{done.stderr.strip()}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def compare(ours, theirs, peer_workers, args):
    mine, peer = [], []
    for _ in range(args.rounds):
        mine.append(measure([built(args.build / "bench_loader"), ours, "--workers", max(peer_workers, 1), "--batch",
                             args.batch, "--seconds", args.seconds, "--folder", args.folder, "--megabytes",
                             args.megabytes]))
        peer.append(measure([args.python, HERE / "torch_worker.py", theirs, peer_workers, args.batch, args.seconds,
                             args.folder, args.megabytes]))
    def middle(lines, key):
        return statistics.median(line[key] for line in lines)
    return {"case": ours, "peer_case": theirs, "batch": args.batch, "workers": max(peer_workers, 1),
            "peer_workers": peer_workers, "mb_per_core_s": middle(mine, "mb_per_core_s"),
            "peer_mb_per_core_s": middle(peer, "mb_per_core_s"), "mb_per_s": middle(mine, "mb_per_s"),
            "peer_mb_per_s": middle(peer, "mb_per_s"),
            "ratio": statistics.median(m["mb_per_core_s"] / p["mb_per_core_s"] for m, p in zip(mine, peer)),
            "rounds": args.rounds}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=Path, required=True, help="an interpreter that has PyTorch")
    parser.add_argument("--build", type=Path, default=Path("build/ci/bench"), help="where bench_loader is")
    parser.add_argument("--folder", type=Path, default=Path("build/bench-loader-data"), help="for the set on disk")
    parser.add_argument("--megabytes", type=int, default=64, help="of that set")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", default="0,1,2", help="of the peer; ours has as many, at least one")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    print(f"{'case':<12} {'peer case':<15} {'workers':>7} {'ours MB/core/s':>15} {'PyTorch':>9} {'ratio':>7} "
          f"{'ours MB/s':>10} {'PyTorch':>9}")
    lines = []
    for ours, theirs in CASES:
        for workers in map(int, args.workers.split(",")):
            line = compare(ours, theirs, workers, args)
            lines.append(line)
            print(f"{ours:<12} {theirs:<15} {workers:>7} {line['mb_per_core_s']:>15.0f} "
                  f"{line['peer_mb_per_core_s']:>9.1f} {line['ratio']:>7.1f} {line['mb_per_s']:>10.0f} "
                  f"{line['peer_mb_per_s']:>9.1f}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(lines, indent=1) + "\n")


if __name__ == "__main__":
    main()
