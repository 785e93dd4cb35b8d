#!/usr/bin/env python3
"""Compares `starling bench` with PyTorch 2.x on the CPU, in one interleaved run; JAX and TensorFlow beside it.

    bench/compare.py --nets mlp,lenet --threads 2 --phase train --rounds 5 --json compare.jsonl
    bench/compare.py --nets lstm --batch 64 --peers pytorch,jax,tensorflow

For each network: the losses of 20 steps from the same weights must agree within 1e-3; then slices of both sides
alternate (A B A B …). Each mode of a peer runs in a worker of its own; the bar is PyTorch's best; ratio = peer / ours.
PyTorch lives in .venv-bench, the others in .venv-jax and .venv-tensorflow, made on first use; one of the others that
cannot be installed is told and left out. Exit codes: 0 all compared, 1 a network failed, 2 wrong usage, 3 PyTorch
cannot be installed.
"""

import argparse
import json
import sys

from peer import environment, table
from peer.built import built
from peer.catalogue import MODES, NETS, PEERS, modes_for, with_batch
from peer.client import PeerError
from peer.comparison import compare
from peer.ours import Starling, StarlingError


def names(known):
    """An argparse type: a comma-separated list out of `known`."""
    def parse(text: str) -> list:
        chosen = text.split(",")
        for name in chosen:
            if name not in known:
                raise argparse.ArgumentTypeError(f"expected names out of {', '.join(known)}, got '{name}'")
        return chosen
    return parse


def positive(kind):
    def parse(text: str):
        value = kind(text)
        if value <= 0:
            raise argparse.ArgumentTypeError(f"expected a positive number, got {text}")
        return value
    return parse


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", type=names(list(NETS)), default=["mlp", "sae_small", "sae_big", "lenet"])
    parser.add_argument("--threads", type=positive(int), default=1)
    parser.add_argument("--batch", type=positive(int), default=0, help="samples in a batch (default: as published)")
    parser.add_argument("--phase", choices=["forward", "train"], default="train")
    parser.add_argument("--rounds", type=positive(int), default=5)
    parser.add_argument("--seconds", type=positive(float), default=2.0, help="length of one slice")
    parser.add_argument("--modes", type=names(MODES), default=MODES,
                        help="of PyTorch; channels_last is for CNNs only")
    parser.add_argument("--peers", type=names(PEERS), default=["pytorch"], help="PyTorch is always one of them")
    parser.add_argument("--json", metavar="FILE", help="one JSON line per network goes there")
    parser.add_argument("--starling", default=str(environment.ROOT / "build" / "release" / "bin" / "starling"))
    parser.add_argument("--self-test", action="store_true", help="tries the protocol against a fake starling")
    options = parser.parse_args()
    for name in options.nets:
        if not modes_for(NETS[name], options.modes):
            parser.error(f"--modes {','.join(options.modes)} leaves no mode for {name}")
    return options


def run(options, command: list, pythons: dict) -> int:
    """Compares every network; a failure of one is told and does not stop the others. Returns the exit code."""
    failed = False
    output = open(options.json, "w") if options.json else None
    print(table.HEADER)
    for name in options.nets:
        try:
            line = compare(with_batch(name, options.batch), Starling(command, options.threads), pythons, options)
        except (PeerError, StarlingError) as error:
            print(f"{name:<12} FAILED: {error}", flush=True)
            failed = True
            continue
        print(table.row(line), flush=True)
        if line["ratio"] is None:
            failed = True
        else:
            print("\n".join([table.modes(line), *table.others(line)]), flush=True)
        if output:
            print(json.dumps(line), file=output, flush=True)
    if output:
        output.close()
    return 1 if failed else 0


def find_pythons(peers: list) -> dict:
    """Each peer's Python, PyTorch's first; a peer beside it that cannot be installed is told and left out."""
    pythons = {"pytorch": environment.ensure()}
    for name in peers:
        if name not in pythons:
            try:
                pythons[name] = environment.install(*environment.PEERS[name])
            except environment.Missing as why:
                print(f"[compare] {name} is left out: {why}", file=sys.stderr)
    return pythons


def main() -> int:
    options = parse_arguments()
    if not options.self_test:
        built(options.starling)
    pythons = find_pythons(options.peers)
    if options.self_test:
        from peer import self_test
        return self_test.main(run, pythons["pytorch"])
    return run(options, [options.starling], pythons)


if __name__ == "__main__":
    sys.exit(main())
