#!/usr/bin/env python3
"""Codecs on a slow link: two 1-thread processes, each on a core of its own, and what is left of their independent speed.

    bench/codecs.py --nets mlp,lenet --json bench/results/codecs-2026-11.jsonl
    bench/codecs.py --table bench/results/codecs-2026-11.jsonl            # prints the tables of measured runs again

The ranks sit in two network namespaces joined by a link of a given rate (--link 1gbit; bench/netns.sh, needs root) and
talk by Gloo. All processes are started once and sleep at a pipe; then slices of all kinds alternate, round after round:
two independent processes, and two ranks by every codec; of a network with an embedding also two whose gradient of it is
row-sparse. share = independent / together, the median over the rounds.

Accuracy is of another run for each codec: the same small job on Fashion-MNIST, two workers as threads, as many epochs.
The job has no momentum, so that top_k may have it (and the others are given none).

Exit codes: 0 all measured, 1 a network failed, 2 wrong usage.
"""

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from compare import names, positive
from peer import environment
from peer.built import built
from peer.catalogue import NETS
from peer.history import stamp
from peer.namespaces import Namespaces
from peer.pairs import PairError
from scaling import Starter, interleave, ratio

CODECS = {"none": "none", "bf16": "bf16", "one_bit": "one_bit", "top_k 1 %": "{name: top_k, share: 0.01}",
          "threshold": "{name: threshold, threshold: 0.001}", "power_sgd 4": "{name: power_sgd, rank: 4}",
          "factors": "factors", "auto": "auto"}
# Networks with an embedding, whose gradient is the rows that a batch reads: the same, and those rows alone travel.
SPARSE = {"lstm": {"row-sparse": "none", "row-sparse, bf16": "bf16", "row-sparse, auto": "auto"}}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", type=names(list(NETS)), default=["mlp", "lenet", "sae_big", "lstm", "resnet18"])
    parser.add_argument("--link", metavar="RATE", default="1gbit")
    parser.add_argument("--rounds", type=positive(int), default=5)
    parser.add_argument("--seconds", type=positive(float), default=0.5, help="length of one slice")
    parser.add_argument("--least-steps", type=positive(int), default=3, help="of a slice, however long they take")
    parser.add_argument("--epochs", type=positive(int), default=4, help="of the runs whose accuracy is told")
    parser.add_argument("--samples", type=positive(int), default=10000, help="of those runs")
    parser.add_argument("--json", metavar="FILE", help="one JSON line a network, and one of the accuracies, go there")
    parser.add_argument("--table", metavar="FILE", help="prints the tables of such a file and measures nothing")
    parser.add_argument("--starling", default=str(environment.ROOT / "build" / "release" / "bin" / "starling"))
    return parser.parse_args()


def shares(net: str, options, sides: list) -> dict:
    starter = Starter(net, options.starling, None, sides, True)
    with contextlib.ExitStack() as stack:
        def held(pair):
            stack.callback(pair.close)
            return pair, None

        kinds = {"apart": held(starter.ours(False, "--on-request"))}
        for name, codec in CODECS.items():
            kinds[name] = held(starter.ours(True, "--on-request", "--codec", codec))
        for name, codec in SPARSE.get(net, {}).items():
            kinds[name] = held(starter.ours(True, "--on-request", "--codec", codec, "--set", "sparse=true"))
        slices = interleave(kinds, options)
    return {"net": net, "batch": NETS[net].batch, "link": options.link, "rounds": options.rounds, **stamp(),
            "apart_ms": sorted(s["step_ms"] for s in slices["apart"])[options.rounds // 2],
            "shares": {name: ratio(slices, "apart", name) for name in kinds if name != "apart"}}


def accuracy(codec: str, options, folder: str) -> dict:
    job = {"model": {"name": "lenet", "classes": 10},
           "data": {"name": "fashion_mnist", "batch": 64, "train_limit": options.samples, "test_limit": 5000},
           "optimizer": {"name": "sgd", "lr": 0.1, "momentum": 0},
           "train": {"epochs": options.epochs, "seed": 1, "folder": f"{folder}/run", "export": False, "resume": "none"},
           "distribute": {"workers": 2, "codec": codec},
           "monitor": {"tensorboard": False}}
    file = Path(folder) / "job.yaml"
    file.write_text(json.dumps(job).replace(f'"codec": "{codec}"', f'"codec": {codec}'))
    subprocess.run([options.starling, "train", str(file)], check=True, capture_output=True)
    summary = json.loads((Path(folder) / "run" / "summary.json").read_text())
    sent = summary["ranks"][0]["counters"]["reduced_bytes_sent"]
    return {"accuracy": summary["metrics"]["test_accuracy"], "loss": summary["loss"], "mb_sent": sent / 1e6}


def accuracies(options) -> dict:
    told = {}
    for name, codec in CODECS.items():
        with tempfile.TemporaryDirectory() as folder:
            told[name] = accuracy(codec, options, folder)
    return {"accuracies": told, "epochs": options.epochs, "samples": options.samples, **stamp()}


def table(lines: list) -> str:
    nets = [line for line in lines if "net" in line]
    out = []
    if nets:
        out += ["| codec | " + " | ".join(f"{line['net']} ({line['batch']})" for line in nets) + " |",
                "|---|" + "---|" * len(nets)]
        kinds = dict.fromkeys(name for line in nets for name in line["shares"])
        share = lambda line, name: f"{line['shares'][name]:.0%}" if name in line["shares"] else ""  # noqa: E731
        out += [f"| {name} | " + " | ".join(share(line, name) for line in nets) + " |" for name in kinds]
        out.append("")
    for line in lines:
        if "accuracies" in line:
            out += ["| codec | test accuracy | loss | MB sent by a worker |", "|---|---|---|---|"]
            out += [f"| {name} | {own['accuracy']:.3f} | {own['loss']:.3f} | {own['mb_sent']:.1f} |"
                    for name, own in line["accuracies"].items()]
    return "\n".join(out)


def main() -> int:
    options = parse_arguments()
    if options.table:
        print(table([json.loads(line) for line in Path(options.table).read_text().splitlines()]))
        return 0
    options.starling = str(Path(built(options.starling)).resolve())
    lines, failed = [], False
    with Namespaces(options.link) as link:
        for net in options.nets:
            try:
                lines.append(shares(net, options, link.sides))
                print(json.dumps(lines[-1]), flush=True)
            except PairError as error:
                print(f"{net} FAILED: {error}", flush=True)
                failed = True
    lines.append(accuracies(options))
    if options.json:
        Path(options.json).write_text("".join(json.dumps(line) + "\n" for line in lines))
    print(table(lines))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
