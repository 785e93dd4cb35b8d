"""One network, both sides: losses compared first, then interleaved slices; the bar is the peer's best mode."""

import math
import statistics
import tempfile
from pathlib import Path

from peer.catalogue import LOSS_STEPS, LOSS_TOLERANCE, modes_for
from peer.client import Peer


DISTURBED = 1.3


def check_losses(net, starling, peer) -> dict:
    """Both sides take 20 steps from our exported weights on our exported batch."""
    with tempfile.TemporaryDirectory(prefix="starling-compare-") as folder:
        file = str(Path(folder) / f"{net.name}.safetensors")
        starling.export(net, file)
        ours = starling.losses(net, file)
        theirs = peer.ask("losses", file=file)["losses"]
    differences = [abs(a - b) for a, b in zip(ours, theirs)]
    # all(… <= …) and not max(…) > …, because every comparison with a NaN is false
    ok = len(ours) == len(theirs) == LOSS_STEPS and all(d <= LOSS_TOLERANCE for d in differences)
    finite = [d for d in differences if math.isfinite(d)]
    return {"ok": ok, "max_difference": max(finite, default=None), "not_finite": len(differences) - len(finite),
            "steps": len(ours)}


def summary(slices: list) -> dict:
    """Median of the slices' medians and of their p10s: the same figure on both sides."""
    return {"ms": statistics.median(s["step_ms"] for s in slices),
            "p10_ms": statistics.median(s["p10_ms"] for s in slices)}


def disturbed(times: dict) -> bool:
    """Whether other programs plainly had the cores: with two threads one lost core makes steps many times longer."""
    return times["ms"] > DISTURBED * times["p10_ms"]


def interleave(net, starling, peers: list, options) -> tuple:
    """A B A B …: one slice of ours, then one of each peer mode, round after round."""
    ours, theirs = [], {peer.mode: [] for peer in peers}
    for _ in range(options.rounds):
        ours.append(starling.slice(net, options.phase, options.seconds))
        for peer in peers:
            theirs[peer.mode].append(peer.ask("slice", seconds=options.seconds))
    return ours, theirs


def timed(net, starling, peers: list, options) -> dict:
    prepared = {peer.mode: peer.ask("prepare") for peer in peers}
    ours, theirs = interleave(net, starling, peers, options)
    modes = {mode: {**summary(slices), "variant": prepared[mode]["variant"],
                    "trials_ms": prepared[mode]["trials_ms"]} for mode, slices in theirs.items()}
    best = min(modes, key=lambda mode: modes[mode]["ms"])
    mine = summary(ours)
    paired = [b["step_ms"] / a["step_ms"] for a, b in zip(ours, theirs[best])]
    return {
        "ours_ms": mine["ms"], "ours_p10_ms": mine["p10_ms"], "ours_peak_bytes": ours[-1]["peak_bytes"],
        "peer_ms": modes[best]["ms"], "peer_p10_ms": modes[best]["p10_ms"],
        "peer_mode": best, "peer_variant": modes[best]["variant"],
        "ratio": modes[best]["ms"] / mine["ms"], "ratio_p10": modes[best]["p10_ms"] / mine["p10_ms"],
        "ratio_per_round": paired, "modes": modes,
        "disturbed": disturbed(mine) or disturbed(modes[best]), "torch": prepared[best]["torch"]}


def compare(net, starling, python, options) -> dict:
    """The network's JSON line. Without equal losses there is no timing: its ratio is null."""
    line = {"net": net.name, "batch": net.batch, "threads": options.threads, "phase": options.phase,
            "device": "cpu", "dtype": "f32", "rounds": options.rounds, "seconds": options.seconds}
    peers = []
    try:
        for mode in modes_for(net, options.modes):
            peers.append(Peer(python, net, mode, options.phase, options.threads))
        line["loss_check"] = check_losses(net, starling, peers[0])
        if not line["loss_check"]["ok"]:
            return {**line, "ours_ms": None, "peer_ms": None, "peer_mode": None, "ratio": None}
        return {**line, **timed(net, starling, peers, options)}
    finally:
        for peer in peers:
            peer.close()
