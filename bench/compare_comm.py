#!/usr/bin/env python3
"""All-reduce between the processes of one host: ours in shared memory beside Open MPI and Gloo, interleaved.

    bench/compare_comm.py --build build/release --json comm.jsonl [--sizes 4,1M,16M] [--rounds 15] [--ranks 2]
        [--sides "shared,Open MPI"]

All sides are started once and sleep at a pipe; then each round measures every size on every side in turn. Reported is
the median over the rounds, in microseconds an all-reduce of float32, and the rate as bytes of the buffer a second:
    shared, arena    buffers in Comm::arena(): reduced where they lie
    shared, plain    buffers anywhere: staged through the shared memory
    shared, checked  as the first, inside the decorator that jobs have around every communicator
    gloo backend     our communicator over Gloo's connections
    Open MPI         MPI_Allreduce, the better of in place and two buffers; Gloo: the better of ring and bcube
Ratios are Open MPI's or Gloo's time over that of ours. One JSON line a size and side goes to the file.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from peer.built import built

UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
SIZES = "4,1K,16K,64K,256K,1M,4M,16M,64M,256M"
SECONDS = 0.06  # wanted of one measurement


def parse_size(text):
    return int(text[:-1]) * UNITS[text[-1]] if text[-1] in UNITS else int(text)


def size_name(size):
    for unit, factor in reversed(UNITS.items()):
        if size >= factor and size % factor == 0:
            return f"{size // factor} {unit}B"
    return f"{size} B"


class Side:
    """The processes of one library. Each rank has a pipe of requests; rank 0 answers on its output."""

    def __init__(self, name, program, flags, ranks, folder, mpirun=None):
        self.name, self.ranks = name, ranks
        folder.mkdir()
        (folder / "store").mkdir()
        for rank in range(ranks):
            os.mkfifo(folder / str(rank))
        words = [str(program), "--pipes", str(folder), "--store", str(folder / "store"), "--world", str(ranks), *flags]
        if mpirun:
            # Bound to cores, as Open MPI recommends for speed; with fewer cores than ranks it must be told so.
            crowded = ranks > os.cpu_count()
            binding = ["--oversubscribe", "--bind-to", "none"] if crowded else ["--bind-to", "core"]
            start = [mpirun, "--allow-run-as-root", *binding, "-n", str(ranks)]
            commands = [start + words]
        else:
            commands = [words + ["--rank", str(rank)] for rank in range(ranks)]
        self.processes = []
        for index, command in enumerate(commands):
            out = subprocess.PIPE if index == 0 else subprocess.DEVNULL
            self.processes.append(subprocess.Popen(command, stdout=out, text=True))
        self.pipes = [open(folder / str(rank), "w") for rank in range(ranks)]  # waits for the ranks

    def measure(self, size, repetitions):
        for pipe in self.pipes:
            pipe.write(f"{size} {repetitions}\n")
            pipe.flush()
        line = self.processes[0].stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended at {size} bytes (code {self.processes[0].wait()})")
        return float(line)

    def close(self):
        for pipe in self.pipes:
            pipe.close()
        for process in self.processes:
            process.wait()


def sides(options, folder):
    build = options.build / "bench"
    made = []

    def add(name, program, flags, mpirun=None):
        if name.startswith(tuple(options.sides.split(","))):
            made.append(Side(name, built(build / program), flags, options.ranks, folder / name, mpirun))

    shared = ["--backend", "shared", "--memory"]
    add("shared, arena", "bench_comm", [*shared, "arena"])
    add("shared, plain", "bench_comm", [*shared, "plain"])
    add("shared, checked", "bench_comm", [*shared, "arena", "--checked", "yes"])
    mpirun = shutil.which("mpirun")
    if mpirun and (build / "bench_comm_mpi").exists():
        for place in ("in", "apart"):
            add(f"Open MPI, {place}", "bench_comm_mpi", ["--place", place], mpirun)
    else:
        print("Open MPI is left out: no mpirun, or bench_comm_mpi was not built")
    if (build / "bench_comm_gloo").exists():
        for algorithm in ("ring", "bcube"):
            add(f"Gloo, {algorithm}", "bench_comm_gloo", ["--algorithm", algorithm])
        add("gloo backend", "bench_comm", ["--backend", "gloo"])
    else:
        print("Gloo is left out: bench_comm_gloo was not built")
    return made


def measure_all(made, sizes, rounds):
    """Side and size to the seconds of every round. Repetitions are chosen by a first look."""
    repetitions = {}
    for side in made:
        for size in sizes:
            once = side.measure(size, 3)
            repetitions[side.name, size] = max(2, min(20000, int(SECONDS / max(once, 1e-7))))
    times = {key: [] for key in repetitions}
    for number in range(rounds):
        for size in sizes:
            for side in made:
                times[side.name, size].append(side.measure(size, repetitions[side.name, size]))
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
    return times


def best(times, names, size):
    """The least of the medians of the sides whose names begin so; None where there is none."""
    medians = [statistics.median(times[name, size]) for name in names if (name, size) in times]
    return min(medians) if medians else None


def report(times, made, sizes, ranks, file):
    names = [side.name for side in made]
    ours = [n for n in names if n.startswith("shared")]
    peers = {"Open MPI": [n for n in names if n.startswith("Open MPI")],
             "Gloo": [n for n in names if n.startswith("Gloo")],
             "gloo backend": ["gloo backend"]}
    print(f"{ranks} processes; microseconds (GB/s) of one all-reduce, median; x: times faster than the peer")
    columns = ours + [p for p, sides_of in peers.items() if any(s in names for s in sides_of)]
    print(f"{'size':>8} " + " ".join(f"{c:>24}" for c in columns))
    for size in sizes:
        cells = []
        for column in columns:
            seconds = best(times, peers.get(column, [column]), size)
            text = f"{seconds * 1e6:.2f} ({size / seconds / 1e9:.2f})"
            row = {"time": time.time(), "ranks": ranks, "bytes": size, "side": column, "microseconds": seconds * 1e6,
                   "rounds": {n: times[n, size] for n in peers.get(column, [column]) if (n, size) in times}}
            if column in ours:
                ratios = {p: best(times, s, size) / seconds for p, s in peers.items() if best(times, s, size)}
                row["times_faster"] = ratios
                if "Open MPI" in ratios:
                    text += f" {ratios['Open MPI']:.2f}x"
            cells.append(f"{text:>24}")
            if file:
                file.write(json.dumps(row) + "\n")
        print(f"{size_name(size):>8} " + " ".join(cells))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build/release"))
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--sides", default="shared,Open MPI,Gloo,gloo", help="prefixes of the names of those to run")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    sizes = [parse_size(text) for text in options.sizes.split(",")]
    with tempfile.TemporaryDirectory(prefix="starling-comm-") as folder:
        made = sides(options, Path(folder))
        times = measure_all(made, sizes, options.rounds)
        for side in made:
            side.close()
    file = options.json.open("a") if options.json else None
    report(times, made, sizes, options.ranks, file)


if __name__ == "__main__":
    main()
