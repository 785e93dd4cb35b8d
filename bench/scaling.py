#!/usr/bin/env python3
"""What talking costs: two 1-thread processes, each on a core of its own, independent and data-parallel, beside PyTorch.

    bench/scaling.py --nets lenet,lstm,sae_big,resnet18,mlp --json scaling.jsonl
    bench/scaling.py --link 1gbit --nets resnet18 --traces traces --json scaling-1gbit.jsonl

Each process has the published batch of the net (weak scaling). All are started once and sleep at a pipe; then slices
of all kinds alternate, round after round:
    apart      two independent processes side by side
    together   two ranks that average their gradients; ours in shared memory, PyTorch's DistributedDataParallel by Gloo
    alone      one independent process, the other core idle
efficiency = apart / together, one against two = alone / together; of each the median over the rounds, both slices of
a round being neighbours in time. With --link the ranks sit in two network namespaces joined by a link of that rate
(bench/netns.sh; needs root), both sides talk by Gloo, and one more kind is measured: ours with --overlap off, the
control; --traces keeps a trace of ours with overlap and without, and tells how much of the collectives compute has
hidden.

Exit codes: 0 all measured, 1 a network failed, 2 wrong usage, 3 PyTorch cannot be installed.
"""

import argparse
import contextlib
import json
import statistics
import sys
from pathlib import Path

from compare import names, positive
from peer import environment, trace_overlap
from peer.built import built
from peer.catalogue import NETS
from peer.client import BENCH
from peer.history import stamp
from peer.namespaces import Namespaces
from peer.pairs import Pair, PairError, Process, free_port

CORES = (0, 1)
LOOPBACK = [{"address": "127.0.0.1", "link": "lo", "within": []}] * 2
LINK_PORTS = iter(range(29500, 29900))  # of namespaces that nobody else is in
SECRET = "of one run of scaling.py"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", type=names(list(NETS)), default=["lenet", "lstm", "sae_big", "resnet18", "mlp"])
    parser.add_argument("--rounds", type=positive(int), default=7)
    parser.add_argument("--seconds", type=positive(float), default=0.5, help="length of one slice")
    parser.add_argument("--least-steps", type=positive(int), default=3, help="of a slice, however long they take")
    parser.add_argument("--link", metavar="RATE", help="ranks in two network namespaces, e.g. 1gbit")
    parser.add_argument("--traces", metavar="FOLDER", help="with --link: keeps traces of ours there")
    parser.add_argument("--no-peer", action="store_true", help="ours only")
    parser.add_argument("--json", metavar="FILE", help="one JSON line a network goes there")
    parser.add_argument("--starling", default=str(environment.ROOT / "build" / "release" / "bin" / "starling"))
    options = parser.parse_args()
    if options.traces and not options.link:
        parser.error("--traces needs --link")
    return options


class Starter:
    """Starts the pairs of one network: ours and the peer's, apart and together."""

    def __init__(self, net: str, starling: str, python, sides: list, linked: bool):
        self.net, self.starling, self.python, self.sides, self.linked = net, starling, python, sides, linked
        # The link's namespaces are ours alone, so its ports are free; on loopback the system names one.
        self.rendezvous = lambda: f"{sides[0]['address']}:{next(LINK_PORTS) if linked else free_port()}"

    def pair(self, name: str, command, environment_of) -> Pair:
        return Pair([Process(f"{name} {rank} of {self.net}", command(rank), CORES[rank], environment_of(rank),
                             self.sides[rank]["within"], BENCH) for rank in range(2)])

    def ours(self, together: bool, *more) -> Pair:
        place = self.rendezvous()
        told = {"STARLING_WORLD": "2", "STARLING_ADDRESS": place, "STARLING_SECRET": SECRET,
                "STARLING_BACKEND": "gloo" if self.linked else "shared"}
        return self.pair("starling", lambda _: [self.starling, "bench", self.net, "--threads", "1", *more],
                         lambda rank: {**told, "STARLING_RANK": str(rank)} if together else {})

    def peer(self, together: bool) -> Pair:
        place = [self.rendezvous()] if together else []
        return self.pair("PyTorch",
                         lambda rank: [str(self.python), "-m", "peer.ddp_worker", self.net, str(rank), *place],
                         lambda rank: {"GLOO_SOCKET_IFNAME": self.sides[rank]["link"]} if together else {})


def steps_for(pair: Pair, options) -> int:
    """How many steps fill a slice."""
    once = pair.slice(options.least_steps)["step_ms"]
    return max(options.least_steps, round(1e3 * options.seconds / once))


def interleave(kinds: dict, options) -> dict:
    """name → the slices of that kind. `kinds`: name → (pair, which one of it; None: both)."""
    steps = {name: steps_for(pair, options) for name, (pair, _) in kinds.items()}
    slices = {name: [] for name in kinds}
    for _ in range(options.rounds):
        for name, (pair, only) in kinds.items():
            slices[name].append(pair.slice(steps[name], only))
    return slices


def ratio(slices: dict, above: str, below: str) -> float:
    return statistics.median(a["step_ms"] / b["step_ms"] for a, b in zip(slices[above], slices[below]))


def summary(slices: dict, side: str) -> dict:
    """What one side's slices say; times in ms."""
    line = {}
    for kind in ("apart", "together", "alone", "no_overlap"):
        if own := slices.get(f"{side} {kind}"):
            line[f"{kind}_ms"] = statistics.median(s["step_ms"] for s in own)
            line[f"{kind}_mean_ms"] = statistics.median(s["mean_ms"] for s in own)
    line["efficiency"] = ratio(slices, f"{side} apart", f"{side} together")
    line["one_against_two"] = ratio(slices, f"{side} alone", f"{side} together")
    if f"{side} no_overlap" in slices:
        line["efficiency_without_overlap"] = ratio(slices, f"{side} apart", f"{side} no_overlap")
    return line


def keep_traces(starter: Starter, folder: Path) -> dict:
    """Traces of ours with overlap and without, and how much of the collectives compute hides in each."""
    folder.mkdir(parents=True, exist_ok=True)
    told = {}
    for overlap in ("on", "off"):
        file = folder.resolve() / f"{starter.net}-overlap-{overlap}.json"
        processes = []
        place = starter.rendezvous()
        for rank in range(2):
            command = [starter.starling, "bench", starter.net, "--threads", "1", "--overlap", overlap,
                       "--trace", str(file), "--seconds", "2"]
            environment_of = {"STARLING_WORLD": "2", "STARLING_RANK": str(rank), "STARLING_ADDRESS": place,
                              "STARLING_SECRET": SECRET, "STARLING_BACKEND": "gloo"}
            processes.append(Process(f"starling {rank} of {starter.net}", command, CORES[rank], environment_of,
                                     starter.sides[rank]["within"]))
        for one in processes:
            one.process.wait(timeout=300)
        if any(one.process.returncode for one in processes):
            raise PairError(f"the traced run of {starter.net} failed")
        told[overlap] = {"file": file.name, **trace_overlap.overlap(trace_overlap.read(file))}
    return told


def measure(name: str, options, python, sides: list) -> dict:
    starter = Starter(name, options.starling, python, sides, bool(options.link))
    line = {"net": name, "batch": NETS[name].batch, "link": options.link or "shared memory", "rounds": options.rounds,
            "seconds": options.seconds, **stamp()}
    with contextlib.ExitStack() as stack:
        def held(pair: Pair) -> Pair:
            stack.callback(pair.close)
            return pair

        kinds = {}
        apart = held(starter.ours(False, "--on-request"))
        kinds["starling apart"] = (apart, None)
        kinds["starling together"] = (held(starter.ours(True, "--on-request")), None)
        kinds["starling alone"] = (apart, 0)
        if options.link:
            kinds["starling no_overlap"] = (held(starter.ours(True, "--on-request", "--overlap", "off")), None)
        if python:
            apart = held(starter.peer(False))
            kinds["pytorch apart"] = (apart, None)
            kinds["pytorch together"] = (held(starter.peer(True)), None)
            kinds["pytorch alone"] = (apart, 0)
            line["torch"] = apart.hello["version"]
        slices = interleave(kinds, options)
    line["backend"] = kinds["starling together"][0].hello["backend"]
    line["starling"] = summary(slices, "starling")
    if python:
        line["pytorch"] = summary(slices, "pytorch")
    line["slices"] = {kind: [round(s["step_ms"], 4) for s in own] for kind, own in slices.items()}
    if options.traces:
        line["traces"] = keep_traces(starter, Path(options.traces))
    return line


HEADER = f"{'net':<10} {'side':<9} {'apart ms':>10} {'together':>10} {'alone':>10} {'efficiency':>11} {'1 against 2':>12}"


def rows(line: dict) -> list:
    out = []
    for side in ("starling", "pytorch"):
        if own := line.get(side):
            out.append(f"{line['net']:<10} {side:<9} {own['apart_ms']:>10.3f} {own['together_ms']:>10.3f} "
                       f"{own['alone_ms']:>10.3f} {own['efficiency']:>10.1%} {own['one_against_two']:>11.1%}")
            if "no_overlap_ms" in own:
                out.append(f"{'':<10} {'  overlap off':<20} {own['no_overlap_ms']:>10.3f} {'':>10} "
                           f"{own['efficiency_without_overlap']:>10.1%}")
    for overlap, told in line.get("traces", {}).items():
        out.append(f"{'':<10} trace, overlap {overlap}: {told['collective_ms']:.0f} ms of collectives, "
                   f"{told['hidden_share']:.0%} of it beside compute ({told['file']})")
    return out


def main() -> int:
    options = parse_arguments()
    options.starling = str(Path(built(options.starling)).resolve())
    python = None if options.no_peer else environment.ensure()
    failed = False
    with contextlib.ExitStack() as stack:
        sides = stack.enter_context(Namespaces(options.link)).sides if options.link else LOOPBACK
        output = stack.enter_context(open(options.json, "w")) if options.json else None
        print(HEADER, flush=True)
        for name in options.nets:
            try:
                line = measure(name, options, python, sides)
            except PairError as error:
                print(f"{name:<10} FAILED: {error}", flush=True)
                failed = True
                continue
            print("\n".join(rows(line)), flush=True)
            if output:
                print(json.dumps(line), file=output, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
