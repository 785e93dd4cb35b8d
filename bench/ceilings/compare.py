#!/usr/bin/env python3
"""Runs two builds of bench_ceilings in turn (A B A B ...), keeps the fastest time of every primitive, writes one CSV a
library version below results/ and prints the tables of README.md.

  compare.py --minutes 10 A B     measure with the programs A and B, then print
  compare.py                      print from what results/ holds

Rounds add to what results/ holds; delete its files to begin anew, as on another machine one must.
"""
import argparse
import csv
import itertools
import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from peer.built import built  # noqa: E402

HERE = pathlib.Path(__file__).parent
RESULTS = HERE / "results"
FIELDS = ["layer", "needs_input_gradient", "pass", "threads", "implementation", "ms", "gflops", "gbs", "wall_ms"]
PASSES = ["forward", "backward_data", "backward_weights", "backward"]


def read_shapes():
    with open(HERE / "shapes.csv") as file:
        return list(csv.DictReader(file))


def run(program, waiting, *arguments):
    """The library version and the rows that one run of a program prints."""
    environment = {**os.environ, "OMP_PROC_BIND": "true", "OMP_WAIT_POLICY": waiting}
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=True, env=environment)
    lines = done.stdout.splitlines()
    return lines[0].split()[-1], list(csv.DictReader(lines[1:]))


def key(row):
    return tuple(row[field] for field in FIELDS[:4])


def speed(row):
    return 1 / float(row["ms"]) if row["ms"] else float(row["gflops"] or row["gbs"])


def merge(best, rows):
    for row in rows:
        if key(row) not in best or speed(row) > speed(best[key(row)]):
            best[key(row)] = row


def measure(programs, minutes, names):
    """Rounds over the networks until the time is spent (the first is always finished), programs in turn at each network.

    Others may use the machine. Threads that wait passively use no processor time, so that their clocks are right even
    then, but waking them costs tiny primitives 20 us; threads that spin are right when nobody disturbs. Rounds alternate.
    """
    results, end = {}, time.monotonic() + 60 * minutes
    for waiting in itertools.cycle(["passive", "active"]):
        for arguments in [["--network", "none", "--machine"], *(["--network", name] for name in names)]:
            for program in programs:
                version, rows = run(program, waiting, *arguments)
                merge(results.setdefault(version, read(version)), rows)
                write(version, results[version])
        if time.monotonic() > end:
            return


def write(version, best):
    with open(RESULTS / f"onednn-{version}.csv", "w") as file:
        file.write(f"# oneDNN {version}, the fastest of many interleaved rounds\n")
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(best.values())


def read(version):
    path = RESULTS / f"onednn-{version}.csv"
    if not path.exists():
        return {}
    with open(path) as file:
        file.readline()
        return {key(row): row for row in csv.DictReader(file)}


def totals(shapes, result, network, threads, arithmetic):
    """{pass: (ms, GFLOP)} summed over the layers of a network, each as often as it occurs."""
    sums = {p: [0.0, 0.0] for p in PASSES}
    for shape in shapes:
        if shape["network"] != network or shape["arithmetic"] != arithmetic:
            continue
        for p in PASSES:
            row = result.get((shape["layer"], shape["needs_input_gradient"], p, threads))
            if row:
                ms = float(row["ms"]) * int(shape["count"])
                sums[p][0] += ms
                sums[p][1] += ms * 1e-3 * float(row["gflops"])
    return sums


def cell(sums, p):
    ms, gflop = sums[p]
    if ms == 0:
        return "–"
    time_text = f"{ms:.0f}" if ms >= 100 else f"{ms:.3g}"
    return f"{time_text} ({gflop / ms * 1e3:.0f})" if gflop else time_text


def print_table(shapes, results, threads, arithmetic, names):
    versions = sorted(results)
    passes = PASSES if arithmetic == "1" else ["forward", "backward"]
    heads = [f"{p.replace('_', '-')} {v}" for p in passes for v in versions]
    print("| network | " + " | ".join(heads) + f" | step {versions[0]} : {versions[-1]} |")
    print("|---" * (len(heads) + 2) + "|")
    for name in names:
        sums = {v: totals(shapes, results[v], name, threads, arithmetic) for v in versions}
        steps = [sum(ms for ms, _ in sums[v].values()) for v in versions]
        if steps[-1]:
            print(f"| {name} | " + " | ".join(cell(sums[v], p) for p in passes for v in versions)
                  + f" | {steps[0] / steps[-1]:.2f} |")
    print()


def print_weak(shapes, result, threads, share):
    """The products below a share of the peak, by what their network's products would gain at the peak, if 2 % or more."""
    fma = [row for row in result.values() if row["implementation"] == "fma" and row["threads"] == threads]
    peak = max(float(row["gflops"]) for row in fma)
    weak = []
    for shape in shapes:
        step = sum(ms for ms, _ in totals(shapes, result, shape["network"], threads, "1").values())
        for p in PASSES:
            row = result.get((shape["layer"], shape["needs_input_gradient"], p, threads))
            if not row or shape["arithmetic"] == "0" or float(row["gflops"]) > share * peak:
                continue
            part = float(row["gflops"]) / peak
            gain = float(row["ms"]) * int(shape["count"]) * (1 - part) / step
            if gain > 0.02:
                weak.append((gain, part, shape, row))
    print("| network | layer | pass | GFLOP/s | of peak | gain at peak | implementation |")
    print("|---" * 7 + "|")
    for gain, part, shape, row in sorted(weak, key=lambda w: -w[0]):
        which = f"{shape['count']} × {row['layer']} | {row['pass'].replace('_', '-')}"
        print(f"| {shape['network']} | {which} | {row['gflops']} | {part:.0%} | {gain:.0%} | {row['implementation']} |")
    print()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", help="two builds of bench_ceilings")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--networks", nargs="*", help="only these (all)")
    parser.add_argument("--share", type=float, default=0.7, help="of the peak, below which a primitive is called weak")
    options = parser.parse_args()
    shapes = read_shapes()
    names = list(dict.fromkeys(shape["network"] for shape in shapes))
    if options.programs:
        measure([built(program) for program in options.programs], options.minutes, options.networks or names)
    versions = [path.stem.removeprefix("onednn-") for path in RESULTS.glob("onednn-*.csv")]
    results = {version: read(version) for version in versions}
    for threads in ["1", "2"]:
        for arithmetic, title in [("1", "products"), ("0", "the rest")]:
            print(f"{title}, {threads} thread(s), ms (GFLOP/s)\n")
            print_table(shapes, results, threads, arithmetic, names)
    for version in sorted(results):
        for threads in ["1", "2"]:
            print(f"weak in {version}, {threads} thread(s)\n")
            print_weak(shapes, results[version], threads, options.share)


if __name__ == "__main__":
    main()
