#!/usr/bin/env python3
"""Starts a world of rank processes (rank.cpp) and tells whether all ended as they should.

  run.py PROGRAM --world 3 --backend gloo --mode transports

gloo: one process a rank, meeting in a temporary folder. mpi: through mpirun; skipped (77) where there is none.
namespaces: gloo with two ranks that only a virtual link joins; skipped where that is not allowed.
"""

import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
DEADLINE = 150  # seconds; a world that hangs fails here


def wait_for_all(processes, deadline):
    """Exit codes of all; those that are still there at the deadline are killed and count as None."""
    end = time.monotonic() + deadline
    codes = []
    for process in processes:
        try:
            process.wait(max(0.0, end - time.monotonic()))
            codes.append(process.returncode)
        except subprocess.TimeoutExpired:
            codes.append(None)
    for process in processes:
        if process.poll() is None:
            process.kill()
            process.wait()
    return codes


def run_gloo(options):
    with tempfile.TemporaryDirectory(prefix="starling-ranks-") as folder:
        processes = []
        for rank in range(options.world):
            words = [options.program, "--backend", "gloo", "--rank", str(rank), "--world", str(options.world)]
            words += ["--store", folder, "--mode", options.mode]
            processes.append(subprocess.Popen(words))
        codes = wait_for_all(processes, DEADLINE)
    expected = [0] * options.world
    if options.mode.startswith("lost"):
        expected[-1] = -signal.SIGKILL
    if options.mode == "one_fails":
        expected = [1] * options.world
    if SKIPPED in codes:
        print("skipped: this build has no Gloo")
        return SKIPPED
    print(f"exit codes of the ranks: {codes}, expected {expected}")
    return 0 if codes == expected else 1


def run_mpi(options):
    mpirun = shutil.which("mpirun")
    if mpirun is None:
        print("skipped: no mpirun here (openmpi-bin)")
        return SKIPPED
    words = [mpirun, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(options.world)]
    words += [options.program, "--backend", "mpi", "--mode", options.mode]
    start = time.monotonic()
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        text, _ = process.communicate(timeout=DEADLINE)
    except subprocess.TimeoutExpired:
        process.kill()
        text, _ = process.communicate()
        print(text, f"not ended after {DEADLINE} s", sep="\n")
        return 1
    seconds = time.monotonic() - start
    print(text, f"mpirun ended with {process.returncode} after {seconds:.1f} s", sep="\n")
    if process.returncode == SKIPPED:
        return SKIPPED
    if options.mode == "lost_rank":  # MPI's hand ends the others, and mpirun names the rank
        named = f"rank {options.world - 1}" in text and "signal 9" in text
        return 0 if process.returncode != 0 and named and seconds < 10 else 1
    if options.mode == "one_fails":  # its words are printed, and its exit code ends the others
        return 0 if process.returncode == 1 and "[rank 1] out of paper" in text else 1
    exported = "rank 0 has exported" in text
    if options.mode == "works_alone_at_the_end":
        return 0 if process.returncode == 0 and exported else 1
    if options.mode.endswith("_stopped_at_the_end"):  # named by those that wait, but not before rank 0 has exported
        victim = int(options.mode[len("rank")])
        named = re.search(rf"starling: \[supervision\] rank {victim} \(pid \d+ on \S+\) has been silent", text)
        return 0 if process.returncode == 1 and named and exported == (victim != 0) else 1
    return 0 if process.returncode == 0 else 1


def can_make_namespaces():
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    name = f"starling{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode == 0
    if made:
        subprocess.run(["ip", "netns", "del", name], check=False)
    return made


def run_namespaces(options):
    if not can_make_namespaces():
        print("skipped: network namespaces need root and iproute2")
        return SKIPPED
    netns = pathlib.Path(__file__).resolve().parents[3] / "bench" / "netns.sh"
    with tempfile.TemporaryDirectory(prefix="starling-ranks-") as folder:
        rank = f'"{options.program}" --backend gloo --rank "$RANK" --world 2 --address "$ADDRESS"'
        words = [netns, "--rate", "none", "--", "sh", "-c", f'{rank} --store "{folder}" --mode {options.mode}']
        return subprocess.run(words, timeout=DEADLINE, check=False).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--world", type=int, default=2)
    parser.add_argument("--backend", choices=["gloo", "mpi", "namespaces"], default="gloo")
    parser.add_argument("--mode", default="transports")
    options = parser.parse_args()
    run = {"gloo": run_gloo, "mpi": run_mpi, "namespaces": run_namespaces}
    return run[options.backend](options)


if __name__ == "__main__":
    sys.exit(main())
