#!/usr/bin/env python3
"""How often `codec: auto` is right: a sweep of layers, batches and links, each measured in every form that auto chooses from.

    bench/codec_choice.py --json bench/results/codec-choice-2026-11.jsonl
    bench/codec_choice.py --table bench/results/codec-choice-2026-11.jsonl   # prints the table of measured runs again

Two 1-thread processes in two network namespaces joined by a link (bench/netns.sh, needs root), as bench/codecs.py has
them. The network is an mlp of one hidden layer, so that its first matrix is nearly all of it. auto is right where its step
takes at most --within times the fastest form's, in the median over the rounds.

Exit codes: 0 right in at least --least of the cases, 1 less often or a case failed, 2 wrong usage.
"""

import argparse
import contextlib
import json
import statistics
import sys
from pathlib import Path

from compare import positive
from peer import environment
from peer.built import built
from peer.history import stamp
from peer.namespaces import Namespaces
from peer.pairs import PairError
from scaling import Starter, interleave

FORMS = {"dense": "none", "bf16": "bf16", "one_bit": "one_bit", "factors": "factors"}
LINKS = ["100mbit", "1gbit", "10gbit"]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--links", type=lambda text: text.split(","), default=LINKS, metavar="RATE,…")
    parser.add_argument("--hidden", type=lambda text: [int(n) for n in text.split(",")], default=[64, 512, 4096])
    parser.add_argument("--batches", type=lambda text: [int(n) for n in text.split(",")], default=[4, 32, 256])
    parser.add_argument("--rounds", type=positive(int), default=5)
    parser.add_argument("--seconds", type=positive(float), default=0.3, help="length of one slice")
    parser.add_argument("--least-steps", type=positive(int), default=3, help="of a slice, however long they take")
    parser.add_argument("--within", type=positive(float), default=1.1, help="times the fastest form's step")
    parser.add_argument("--least", type=positive(float), default=0.9, help="share of the cases")
    parser.add_argument("--json", metavar="FILE", help="one JSON line a case goes there")
    parser.add_argument("--table", metavar="FILE", help="prints the table of such a file and measures nothing")
    parser.add_argument("--starling", default=str(environment.ROOT / "build" / "release" / "bin" / "starling"))
    return parser.parse_args()


def measured(link: str, hidden: int, batch: int, options, sides: list) -> dict:
    """Median milliseconds of a step in each form, and by auto."""
    starter = Starter("mlp", options.starling, None, sides, True)
    with contextlib.ExitStack() as stack:
        def held(codec):
            pair = starter.ours(True, "--on-request", "--codec", codec, "--set", f"hidden=[{hidden}]",
                                "--batch", str(batch))
            stack.callback(pair.close)
            return pair, None

        kinds = {name: held(codec) for name, codec in {**FORMS, "auto": "auto"}.items()}
        slices = interleave(kinds, options)
    return {"link": link, "hidden": hidden, "batch": batch, "rounds": options.rounds, **stamp(),
            "ms": {name: statistics.median(one["step_ms"] for one in own) for name, own in slices.items()}}


def fastest(line: dict) -> str:
    return min(FORMS, key=lambda form: line["ms"][form])


def is_right(line: dict, within: float) -> bool:
    return line["ms"]["auto"] <= within * line["ms"][fastest(line)]


def table(lines: list, within: float) -> str:
    forms = [*FORMS, "auto"]
    out = ["| link | hidden | batch | " + " | ".join(f"{form}, ms" for form in forms) + " | fastest | auto right |",
           "|---|---|---|" + "---|" * (len(forms) + 2)]
    for line in lines:
        times = " | ".join(f"{line['ms'][form]:.2f}" for form in forms)
        out.append(f"| {line['link']} | {line['hidden']} | {line['batch']} | {times} | {fastest(line)} | "
                   f"{'yes' if is_right(line, within) else 'no'} |")
    return "\n".join(out)


def share(lines: list, within: float) -> float:
    return sum(is_right(line, within) for line in lines) / max(1, len(lines))


def main() -> int:
    options = parse_arguments()
    if options.table:
        lines = [json.loads(line) for line in Path(options.table).read_text().splitlines()]
        print(table(lines, options.within))
        print(f"auto right in {share(lines, options.within):.0%} of {len(lines)} cases")
        return 0
    options.starling = str(Path(built(options.starling)).resolve())
    lines, failed = [], False
    for rate in options.links:
        with Namespaces(rate) as link:
            for hidden in options.hidden:
                for batch in options.batches:
                    try:
                        lines.append(measured(rate, hidden, batch, options, link.sides))
                    except PairError as error:
                        print(f"{rate}, {hidden}, {batch} FAILED: {error}", flush=True)
                        failed = True
                        continue
                    print(json.dumps(lines[-1]), flush=True)
    if options.json:
        Path(options.json).write_text("".join(json.dumps(line) + "\n" for line in lines))
    print(table(lines, options.within))
    print(f"auto right in {share(lines, options.within):.0%} of {len(lines)} cases")
    return 1 if failed or share(lines, options.within) < options.least else 0


if __name__ == "__main__":
    sys.exit(main())
