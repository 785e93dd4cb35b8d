#!/usr/bin/env python3
"""Peak memory of one training step, ours against PyTorch's eager mode.

    bench/compare_memory.py [--starling PATH] [--threads N] [--budget MB] [--out FILE] [NET ...]

Both sides are measured alike: resident memory at its highest in a process that makes the network and its batch and
trains it for a few steps, less that of the same program with nothing to do. One row a network; ratio = ours / PyTorch's.
With --budget our program computes again what does not fit. Exit code 1 if a ratio is above --most.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from peer import environment  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]


def run_child(command: list, threads: int) -> tuple:
    """Its output and the most memory it had, in bytes."""
    env = {**os.environ, "OMP_NUM_THREADS": str(threads), "PYTHONPATH": str(ROOT / "bench")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as child:
        out, err = child.stdout.read(), child.stderr.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"[memory] {' '.join(command)} ended with code {child.returncode}:\n{err.strip()}")
    return out, usage.ru_maxrss * 1024


def ours(starling: str, net: str, threads: int, budget: float) -> dict:
    _, baseline = run_child([starling, "bench", "--list"], threads)
    text, peak = run_child([starling, "bench", net, "--threads", str(threads), "--seconds", "0", "--json", "--budget",
                            str(budget)], threads)
    line = json.loads(text.strip().splitlines()[-1])
    return {"peak_bytes": peak - baseline, "step_ms": line["step_ms"]}


def theirs(python: Path, net: str, threads: int) -> dict:
    text, _ = run_child([str(python), "-m", "peer.memory", net, "eager", str(threads)], threads)
    return json.loads(text.strip().splitlines()[-1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", nargs="*", default=["alexnet", "resnet50"])
    parser.add_argument("--starling", default=str(ROOT / "build/release/bin/starling"))
    parser.add_argument("--python", type=Path, help="an interpreter that has PyTorch; default: one made for it")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--budget", type=float, default=0, help="MB for our values, 0: no bound")
    parser.add_argument("--most", type=float, default=0.7)
    parser.add_argument("--out", type=Path, help="appends one JSON line a network")
    arguments = parser.parse_args()
    python = arguments.python or environment.ensure()
    worst = 0
    for net in arguments.nets:
        mine, peer = ours(arguments.starling, net, arguments.threads, arguments.budget), theirs(python, net, arguments.threads)
        ratio = mine["peak_bytes"] / peer["peak_bytes"]
        worst = max(worst, ratio)
        print(f"{net:<12} ours {mine['peak_bytes'] / 1e6:8.1f} MB   PyTorch {peer['peak_bytes'] / 1e6:8.1f} MB   "
              f"ratio {ratio:.3f}")
        row = {"date": time.strftime("%Y-%m-%d"), "net": net, "threads": arguments.threads, "budget_mb": arguments.budget,
               "ours_bytes": mine["peak_bytes"], "torch_bytes": peer["peak_bytes"], "ratio": round(ratio, 4)}
        if arguments.out:
            with arguments.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
    return int(worst > arguments.most)


if __name__ == "__main__":
    sys.exit(main())
