"""One network, both sides: losses compared first, then interleaved slices; the bar is the peer's best mode."""

import math
import statistics
import tempfile
from pathlib import Path

from peer.catalogue import LOSS_STEPS, LOSS_TOLERANCE, OTHER_MODES, modes_for
from peer.client import Peer, PeerError
from peer.history import stamp


DISTURBED = 1.3


def agreement(ours: list, theirs: list) -> dict:
    differences = [abs(a - b) for a, b in zip(ours, theirs)]
    # all(… <= …) and not max(…) > …, because every comparison with a NaN is false
    ok = len(ours) == len(theirs) == LOSS_STEPS and all(d <= LOSS_TOLERANCE for d in differences)
    finite = [d for d in differences if math.isfinite(d)]
    return {"ok": ok, "max_difference": max(finite, default=None), "not_finite": len(differences) - len(finite),
            "steps": len(ours)}


def ask(peer, refused: dict, do: str, **arguments):
    """The peer's reply. PyTorch is the bar: what it cannot do fails the network. Another framework that fails is left
    out from there on, with its words in `refused`, and the reply is None."""
    if peer in refused:
        return None
    try:
        return peer.ask(do, **arguments)
    except PeerError as error:
        if peer.framework == "pytorch":
            raise
        refused[peer] = str(error)
        return None


def check_losses(net, starling, peers: list, refused: dict) -> dict:
    """All sides take 20 steps from our exported weights on our exported batch: the agreement of each peer with us.
    Peers beside PyTorch whose losses differ are left out of the timing."""
    checks = {}
    with tempfile.TemporaryDirectory(prefix="starling-compare-") as folder:
        file = str(Path(folder) / f"{net.name}.safetensors")
        starling.export(net, file)
        ours = starling.losses(net, file)
        for peer in peers:
            reply = ask(peer, refused, "losses", file=file)
            if reply is None:
                continue
            checks[peer] = agreement(ours, reply["losses"])
            if not checks[peer]["ok"] and peer.framework != "pytorch":
                refused[peer] = f"losses differ by {checks[peer]['max_difference']}"
    return checks


def summary(slices: list) -> dict:
    """Median of the slices' medians and of their p10s: the same figure on both sides."""
    return {"ms": statistics.median(s["step_ms"] for s in slices),
            "p10_ms": statistics.median(s["p10_ms"] for s in slices)}


def disturbed(times: dict) -> bool:
    """Whether other programs plainly had the cores: with two threads one lost core makes steps many times longer."""
    return times["ms"] > DISTURBED * times["p10_ms"]


def interleave(net, starling, peers: list, refused: dict, options) -> tuple:
    """A B A B …: one slice of ours, then one of each peer mode, round after round."""
    ours, theirs = [], {peer: [] for peer in peers}
    for _ in range(options.rounds):
        ours.append(starling.slice(net, options.phase, options.seconds))
        for peer in peers:
            theirs[peer].append(ask(peer, refused, "slice", seconds=options.seconds))
    return ours, theirs


def best_of(peers: list, prepared: dict, theirs: dict, mine: dict) -> dict:
    """One framework's modes, and the fastest of them beside us."""
    modes = {peer.mode: {**summary(theirs[peer]), "variant": prepared[peer]["variant"],
                         "trials_ms": prepared[peer]["trials_ms"]} for peer in peers}
    best = min(modes, key=lambda mode: modes[mode]["ms"])
    return {"ms": modes[best]["ms"], "p10_ms": modes[best]["p10_ms"], "mode": best,
            "variant": modes[best]["variant"], "ratio": modes[best]["ms"] / mine["ms"],
            "ratio_p10": modes[best]["p10_ms"] / mine["p10_ms"], "modes": modes,
            "version": prepared[peers[0]]["version"]}


def timed(net, starling, peers: list, refused: dict, options) -> dict:
    """The timings of one interleaved run of all modes of all frameworks; PyTorch's best is the bar. Modes of the others
    that are refused, or fail on the way, have no timing; a framework with none left says why."""
    prepared = {peer: ask(peer, refused, "prepare") for peer in peers}
    ours, theirs = interleave(net, starling, peers, refused, options)
    mine = summary(ours)
    failed = {peer.framework: {"error": why} for peer, why in refused.items()}
    peers = [peer for peer in peers if peer not in refused]
    by_framework = {name: best_of([peer for peer in peers if peer.framework == name], prepared, theirs, mine)
                    for name in dict.fromkeys(peer.framework for peer in peers)}
    bar = by_framework.pop("pytorch")
    rounds = next(theirs[peer] for peer in peers if peer.framework == "pytorch" and peer.mode == bar["mode"])
    return {
        "ours_ms": mine["ms"], "ours_p10_ms": mine["p10_ms"], "ours_peak_bytes": ours[-1]["peak_bytes"],
        "peer_ms": bar["ms"], "peer_p10_ms": bar["p10_ms"], "peer_mode": bar["mode"], "peer_variant": bar["variant"],
        "ratio": bar["ratio"], "ratio_p10": bar["ratio_p10"],
        "ratio_per_round": [b["step_ms"] / a["step_ms"] for a, b in zip(ours, rounds)], "modes": bar["modes"],
        "disturbed": disturbed(mine) or disturbed(bar), "torch": bar["version"], "others": {**failed, **by_framework}}


def start(net, pythons: dict, options, into: list) -> None:
    """A worker for each mode of each framework, PyTorch's first."""
    for framework, python in pythons.items():
        modes = modes_for(net, options.modes) if framework == "pytorch" else OTHER_MODES[framework]
        into.extend(Peer(framework, python, net, mode, options.phase, options.threads) for mode in modes)


def compare(net, starling, pythons: dict, options) -> dict:
    """The network's JSON line. Without PyTorch's losses equal to ours there is no timing: its ratio is null."""
    line = {"net": net.name, "batch": net.batch, "threads": options.threads, "phase": options.phase,
            "device": "cpu", "dtype": "f32", "rounds": options.rounds, "seconds": options.seconds, **stamp()}
    peers, refused = [], {}
    try:
        start(net, pythons, options, peers)
        # PyTorch's modes run one model, so that its first is asked; the others' modes are asked each
        asked = [peers[0], *(peer for peer in peers if peer.framework != "pytorch")]
        checks = check_losses(net, starling, asked, refused)
        line["loss_check"] = checks[peers[0]]
        if not line["loss_check"]["ok"]:
            return {**line, "ours_ms": None, "peer_ms": None, "peer_mode": None, "ratio": None}
        return {**line, **timed(net, starling, peers, refused, options)}
    finally:
        for peer in peers:
            peer.close()
