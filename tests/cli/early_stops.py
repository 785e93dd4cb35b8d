#!/usr/bin/env python3
"""Ctrl-C and SIGTERM at random moments of the first second of launched runs, most of them while ranks join: each run must end
with 130 soon, and leave no process behind.

  early_stops.py build/ci/bin/starling                       # 120 runs, as ctest does
  early_stops.py build/ci/bin/starling --seed 17 --runs 1    # repeats run 17
"""

import argparse
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

import chaos
import kills_test as kills
from chaos_faults import family_of, kill_family

WITHIN = 5.0  # seconds from the signal to the end; a rank that is waited for in vain takes 10 or 60
FIRST = 0.7  # seconds in which the signal comes
INTERRUPTED = 130

JOB = """model: {{name: mlp, hidden: [8]}}
data: {{folder: '{data}', batch: 24}}
train: {{folder: '{run}', epochs: 100000, export: false}}
distribute: {{threads: 2}}
monitor: {{tensorboard: false}}
"""


class Stop:
    """What a seed stands for."""

    def __init__(self, seed, backends):
        dice = random.Random(seed)
        self.seed = seed
        self.backend = dice.choice(backends)
        self.ranks = dice.choice([2, 3, 4])
        self.signal = dice.choice([signal.SIGINT, signal.SIGTERM])
        self.delay = dice.uniform(0, FIRST)

    def text(self):
        return f"{self.backend}, {self.ranks} ranks: {self.signal.name} after {self.delay:.3f} s"


def transport(stop, folder):
    """Options of the launch. hosts: two of them, played by this one."""
    if stop.backend != "hosts":
        return ["--backend", stop.backend]
    (folder / f"hosts{stop.ranks}").write_text(f"localhost slots=1\nbeta slots={stop.ranks - 1}\n")
    return ["--hosts", str(folder / f"hosts{stop.ranks}"), "--ssh", str(folder / "shell"), "--address", "127.0.0.1"]


def problem_of(stop, program, folder):
    """What is wrong with the run's end; empty: nothing."""
    job = folder / f"{stop.seed}.yaml"
    job.write_text(JOB.format(data=folder, run=folder / str(stop.seed)))
    command = [program, "launch", "-n", str(stop.ranks), *transport(stop, folder), str(job), "--progress", "off"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL, start_new_session=True
    )
    log = kills.Log(process)
    try:
        time.sleep(stop.delay)
        process.send_signal(stop.signal)
        process.wait(WITHIN)
        log.close()
    except subprocess.TimeoutExpired:
        return f"not ended {WITHIN:.0f} s after the signal\n{log.text()}"
    finally:
        left = family_of(process.pid) - {process.pid}
        kill_family(process)
    if left:
        return f"left processes {sorted(left)}\n{log.text()}"
    # A program that is not yet listening is ended by the signal itself, which a shell makes 130 and 143 of.
    if process.returncode not in (INTERRUPTED, -stop.signal):
        return f"expected code {INTERRUPTED}, got {process.returncode}\n{log.text()}"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=120)
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    options = parser.parse_args()
    program = str(options.program.resolve())
    backends = [way for way in chaos.ways_here(program, None) if way in ("shared", "gloo", "hosts")]
    seeds, failed = iter(range(options.seed, options.seed + options.runs)), []
    lock = threading.Lock()
    began = time.monotonic()

    def work(folder):
        while True:
            with lock:
                seed = next(seeds, None)
            if seed is None:
                return
            stop = Stop(seed, backends)
            if problem := problem_of(stop, program, folder):
                failed.append(seed)
                repeat = f"{sys.argv[0]} {options.program} --seed {seed} --runs 1"
                print(f"{seed}: {stop.text()}: FAILED: {problem}\nrepeat it: {repeat}", flush=True)

    with tempfile.TemporaryDirectory(prefix="starling-stops-") as name:
        folder = pathlib.Path(name)
        kills.write_images(folder, "train", 240)
        kills.write_images(folder, "t10k", 24)
        (folder / "shell").write_text('#!/bin/sh\nexport STARLING_HOST="$1"\nshift\nexec /bin/sh -c "$*"\n')
        (folder / "shell").chmod(0o755)
        threads = [threading.Thread(target=work, args=(folder,)) for _ in range(options.jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    print(f"{options.runs} runs in {time.monotonic() - began:.0f} s, {len(failed)} failed {failed or ''}")
    return 1 if failed else 0


if __name__ == "__main__":
    for variable in [name for name in os.environ if name.startswith(("STARLING_", "OMPI_", "PMI"))]:
        del os.environ[variable]
    sys.exit(main())
