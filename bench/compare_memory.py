#!/usr/bin/env python3
"""Compares the peak memory of a training step with PyTorch's: physical memory of a process above what it had before the
network was made, ours from `starling bench`, theirs in their leanest modes (eager, channels_last; gradients freed).

    bench/compare_memory.py --nets alexnet,resnet50 --threads 2 --json memory.jsonl

A share of 70 % means that we need 70 MB where PyTorch's leanest mode needs 100. Beside it stands what our program
plans: arena and scratch, and the variables. Exit codes: 0 all measured, 1 a network failed, 2 wrong usage, 3 no PyTorch.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from compare import names, positive
from peer import environment
from peer.built import built
from peer.catalogue import NETS, modes_for, with_batch
from peer.client import BENCH, PeerError, environment_for
from peer.history import stamp
from peer.ours import Starling, StarlingError

MODES = ["eager", "channels_last"]
HEADER = f"{'net':<12} {'batch':>5} {'thr':>3} {'ours MB':>9} {'program MB':>11} {'variables MB':>13} {'peer MB':>9} " \
         f"{'share':>6}  leanest peer mode"


def peer_memory(python: Path, net, mode: str, threads: int) -> dict:
    call = [str(python), "-m", "peer.memory_worker", net.name, mode, str(threads), str(net.batch)]
    done = subprocess.run(call, cwd=BENCH, capture_output=True, text=True, env=environment_for(threads))
    if done.returncode != 0:
        raise PeerError(f"the peer's {mode} worker ended with code {done.returncode}:\n{done.stderr.strip()}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def our_memory(starling: Starling, net, budget: float) -> dict:
    """Of the few steps that `starling bench` takes when it may measure for no time at all."""
    keys = ["rss_bytes", "program_bytes", "variable_bytes", "peak_bytes"]
    line = starling.json_line(net, "--threads", starling.threads, "--phase", "train", "--mode", "compiled",
                              "--seconds", 0, "--budget", budget, keys=keys)
    return {key: line[key] for key in keys}


def compare(net, starling: Starling, python: Path, budget: float = 0) -> dict:
    ours = our_memory(starling, net, budget)
    theirs = {mode: peer_memory(python, net, mode, starling.threads) for mode in modes_for(net, MODES)}
    leanest = min(theirs, key=lambda mode: theirs[mode]["peak_bytes"])
    return {"net": net.name, "batch": net.batch, "threads": starling.threads, "phase": "train", "dtype": "f32",
            "budget_mb": budget,
            **stamp(), **{f"ours_{key}": value for key, value in ours.items()},
            "peer_bytes": theirs[leanest]["peak_bytes"], "peer_mode": leanest,
            "peer_modes": {mode: told["peak_bytes"] for mode, told in theirs.items()},
            "memory_share": ours["rss_bytes"] / theirs[leanest]["peak_bytes"], "torch": theirs[leanest]["torch"]}


def row(line: dict) -> str:
    ours, program, variables, peer = (line[key] / 1e6 for key in (
        "ours_rss_bytes", "ours_program_bytes", "ours_variable_bytes", "peer_bytes"))
    modes = ", ".join(f"{mode} {peak / 1e6:.0f}" for mode, peak in line["peer_modes"].items())
    return (f"{line['net']:<12} {line['batch']:>5} {line['threads']:>3} {ours:>9.1f} {program:>11.1f} "
            f"{variables:>13.1f} {peer:>9.1f} {line['memory_share']:>6.0%}  {line['peer_mode']} (of {modes})")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", type=names(list(NETS)), default=["alexnet", "resnet50"])
    parser.add_argument("--threads", type=positive(int), default=1)
    parser.add_argument("--batch", type=positive(int), default=0, help="samples in a batch (default: as published)")
    parser.add_argument("--budget", type=float, default=0, help="MB for our values, the rest computed again; 0: no bound")
    parser.add_argument("--json", metavar="FILE", help="one JSON line per network goes there")
    parser.add_argument("--starling", default=str(environment.ROOT / "build" / "release" / "bin" / "starling"))
    return parser.parse_args()


def main() -> int:
    options = parse_arguments()
    built(options.starling)
    python = environment.ensure()
    starling = Starling([options.starling], options.threads)
    lines, failed = [], False
    print(HEADER)
    for name in options.nets:
        try:
            lines.append(compare(with_batch(name, options.batch), starling, python, options.budget))
            print(row(lines[-1]), flush=True)
        except (PeerError, StarlingError) as error:
            print(f"{name:<12} FAILED: {error}", flush=True)
            failed = True
    if options.json:
        Path(options.json).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
