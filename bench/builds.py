#!/usr/bin/env python3
"""Compares two builds of `starling bench`, before and after a change, in one interleaved run.

    bench/builds.py ../before/build/ci/bin/starling build/ci/bin/starling --nets mlp,lenet,gpt,resnet18 --rounds 7

Slices of both alternate (A B B A …); ratio = before / after, above 1 where the second is faster. Exit codes: 0 none of the
networks is slower than allowed (--slower), 1 one is, or failed, 2 wrong usage.
"""

import argparse
import statistics
import sys
from pathlib import Path

from peer.catalogue import NETS, with_batch
from peer.comparison import summary
from peer.ours import Starling, StarlingError
from peer.table import pair


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--nets", default="mlp,lenet,gpt,resnet18", help=", ".join(NETS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--phase", choices=["forward", "train"], default="train")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one slice")
    parser.add_argument("--slower", type=float, default=0.05, help="share of time by which the second may be slower")
    options = parser.parse_args()
    options.nets = options.nets.split(",")
    for name in options.nets:
        if name not in NETS:
            parser.error(f"expected networks out of {', '.join(NETS)}, got '{name}'")
    for program in (options.before, options.after):
        if not program.is_file():
            parser.error(f"expected a starling program at {program}: build it first")
    if options.rounds < 1 or options.threads < 1 or options.seconds <= 0:
        parser.error("expected --rounds and --threads of 1 or more and --seconds above 0")
    return options


def interleave(net, builds: list, options) -> list:
    """Slices of each build. Which comes first changes from round to round: the first of two finds the caches cold."""
    slices = [[], []]
    for number in range(options.rounds):
        for i in (0, 1) if number % 2 == 0 else (1, 0):
            slices[i].append(builds[i].slice(net, options.phase, options.seconds))
    return slices


def compare(name: str, builds: list, options) -> bool:
    """Prints the network's row; whether the second build is as fast as allowed."""
    before, after = interleave(with_batch(name, 0), builds, options)
    old, new = summary(before), summary(after)
    ratio = statistics.median(a["p10_ms"] / b["p10_ms"] for a, b in zip(before, after))
    ok = ratio >= 1 / (1 + options.slower)
    print(f"{name:<12} {pair(old['ms'], old['p10_ms']):>19} {pair(new['ms'], new['p10_ms']):>19} {ratio:>6.3f}"
          f"{'' if ok else '  SLOWER'}", flush=True)
    return ok


def main() -> int:
    options = parse_arguments()
    builds = [Starling([str(program)], options.threads) for program in (options.before, options.after)]
    print(f"{'net':<12} {'before ms (p10)':>19} {'after ms (p10)':>19} {'ratio':>6}   median of the rounds' ratios of p10")
    good = True
    for name in options.nets:
        try:
            good = compare(name, builds, options) and good
        except StarlingError as error:
            print(f"{name:<12} FAILED: {error}", flush=True)
            good = False
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
