#!/usr/bin/env python3
"""Draws one training step of all ranks from a Chrome trace (`starling train --trace`) as an SVG.

    bench/timeline.py trace.json -o step.svg [--step 3]
    bench/timeline.py "overlap=on.json" "no overlap=off.json" -o step.svg    # one panel each, on the same scale
    bench/timeline.py --build build/release -o docs/pictures/timeline.svg    # records ResNet-18 on two processes itself

Two lanes a rank: what it computes, and its collectives. A collective is drawn pale while this rank waits for the last
one to come, and full from then on. Gaps of the compute lane are waits. The number at the right is the share of the time
of a rank's collectives that its computing hides. Without --step the step whose length is the median is drawn. The
standard library is all it needs.
"""

import argparse
import json
import statistics
import subprocess
import tempfile
from html import escape
from pathlib import Path

from peer.built import built

WIDTH = 1400
LEFT, RIGHT = 124, 112
LANE, LANE_GAP, RANK_GAP = 34, 4, 18
COLOURS = {"forward": "#4e93d0", "backward": "#e8a33d", "update": "#58a868", "collective": "#c2415b",
           "waits for the others": "#f0c9d2"}
MERGE = 0.6  # pixels: what is narrower is joined with its neighbours of the same kind


def is_collective(event):
    return event["args"].get("lane") == "comm" or event["name"].startswith(
        ("all_reduce", "all_gather", "all_to_all", "reduce_scatter", "broadcast", "sum_shards"))


def kind_of(event):
    if is_collective(event):
        return "collective"
    first = event.get("cat", "").split("/")[0]
    return {"gradients": "backward", "update": "update"}.get(first, "forward")


class Trace:
    """The steps of all ranks: steps[rank][number] = (computing, collectives), in whichever lane these are."""

    def __init__(self, file):
        events = [event for event in json.loads(Path(file).read_text())["traceEvents"] if event.get("ph") == "X"]
        if not events:
            raise SystemExit(f"{file}: expected a Chrome trace with events, got none")
        self.ranks = sorted({event["pid"] for event in events})
        self.steps = {}
        for rank in self.ranks:
            own = sorted((event for event in events if event["pid"] == rank), key=lambda event: event["ts"])
            self.steps[rank] = self.cut(own)
        self.count = min(len(steps) for steps in self.steps.values())

    @staticmethod
    def cut(events):
        """A step begins where the first instruction of the program comes again."""
        compute = [event for event in events if event["args"].get("lane") != "comm"]
        first = compute[0]["args"].get("node"), compute[0]["name"]
        begins = [event["ts"] for event in compute if (event["args"].get("node"), event["name"]) == first]
        steps = []
        for begin, end in zip(begins, [*begins[1:], float("inf")]):
            inside = [event for event in events if begin <= event["ts"] < end]
            steps.append(([event for event in inside if not is_collective(event)],
                          [event for event in inside if is_collective(event)]))
        return steps

    def span(self, number):
        own = [event for rank in self.ranks for lane in self.steps[rank][number] for event in lane]
        return min(event["ts"] for event in own), max(event["ts"] + event["dur"] for event in own)

    def median_step(self):
        """The first one and the last may be cut."""
        chosen = range(1, self.count - 1) if self.count > 2 else range(self.count)
        lengths = {number: self.span(number)[1] - self.span(number)[0] for number in chosen}
        middle = statistics.median_low(lengths.values())
        return next(number for number, length in lengths.items() if length == middle)


def arrivals(trace, number):
    """When the last rank came to each collective, by its place in the order that is the same everywhere."""
    lanes = [trace.steps[rank][number][1] for rank in trace.ranks]
    if len({len(lane) for lane in lanes}) != 1:
        return None
    return [max(event["ts"] for event in together) for together in zip(*lanes)]


def covered(begin, end, events):
    """How much of [begin, end) lies inside events, which follow each other."""
    return sum(max(0.0, min(end, event["ts"] + event["dur"]) - max(begin, event["ts"])) for event in events)


def hidden_share(compute, comm):
    total = sum(event["dur"] for event in comm)  # computing never hides what its own lane does
    hidden = sum(covered(event["ts"], event["ts"] + event["dur"], compute) for event in comm)
    return hidden / total if total > 0 else None


def text(x, y, words, anchor="start", extra=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{extra}>{escape(words)}</text>'


def rectangle(x, y, width, height, colour, told, extra=""):
    return (f'<rect x="{x:.2f}" y="{y:.1f}" width="{max(width, 0.3):.2f}" height="{height:.1f}" fill="{colour}"{extra}>'
            f"<title>{escape(told)}</title></rect>")


def border(width):
    return ' stroke="#fff" stroke-width="0.5"' if width > 3 else ""


def short(scope):
    """gradients/stage1_1/body/conv1 → stage1_1"""
    parts = [part for part in scope.split("/") if part not in ("gradients", "update")]
    return parts[0] if parts else ""


class Panel:
    def __init__(self, title, trace, number, top, scale):
        self.title, self.trace, self.number, self.top = title, trace, number, top
        self.begin, self.end = trace.span(number)
        self.scale = scale  # pixels a microsecond
        self.height = 40 + len(trace.ranks) * (2 * LANE + LANE_GAP + RANK_GAP) + 26

    def x(self, ts):
        return LEFT + (ts - self.begin) * self.scale

    def draw(self):
        length = (self.end - self.begin) / 1e3
        out = [text(LEFT, self.top + 18, self.title, extra=' font-weight="bold" font-size="16"'),
               text(WIDTH - RIGHT, self.top + 18, f"one step: {length:.1f} ms", "end")]
        y = self.top + 32
        bottom = self.top + self.height - 26
        out += self.axis(y, bottom)
        came = arrivals(self.trace, self.number)
        for rank in self.trace.ranks:
            compute, comm = self.trace.steps[rank][self.number]
            out.append(text(10, y + LANE + LANE_GAP / 2 + 5, f"rank {rank}", extra=' font-weight="bold"'))
            out.append(text(LEFT - 8, y + LANE / 2 + 5, "compute", "end", ' font-size="12" fill="#555"'))
            out.append(text(LEFT - 8, y + LANE + LANE_GAP + LANE / 2 + 5, "comm", "end", ' font-size="12" fill="#555"'))
            for lane in (y, y + LANE + LANE_GAP):
                width = WIDTH - LEFT - RIGHT
                out.append(f'<rect x="{LEFT}" y="{lane}" width="{width}" height="{LANE}" fill="#f4f4f4"/>')
            out += self.compute(compute, y)
            out += self.collectives(comm, came, y)
            hidden = hidden_share(compute, comm)
            if hidden is not None:
                words = f"{100 * hidden:.0f} % hidden"
                out.append(text(WIDTH - RIGHT + 8, y + LANE + LANE_GAP + LANE / 2 + 5, words, extra=' font-size="13"'))
            y += 2 * LANE + LANE_GAP + RANK_GAP
        return out

    def axis(self, top, bottom):
        length = (self.end - self.begin) / 1e3
        spacing = next(step * 10.0 ** power for power in range(-3, 6) for step in (1, 2, 5)
                       if (WIDTH - LEFT - RIGHT) / (self.scale * 1e3) / (step * 10.0 ** power) <= 14)
        out, tick = [], 0.0
        while tick <= length + 1e-9:
            x = LEFT + tick * 1e3 * self.scale
            out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top - 4}" y2="{bottom}" stroke="#ccc" '
                       f'stroke-width="0.8"/>')
            out.append(text(x, bottom + 15, f"{tick:g} ms", "middle", ' font-size="12" fill="#555"'))
            tick += spacing
        return out

    def compute(self, events, y):
        out = []
        for group in self.merged(events):
            begin, end = group[0]["ts"], group[-1]["ts"] + group[-1]["dur"]
            longest = max(group, key=lambda event: event["dur"])
            told = (f"{longest['name']} {longest.get('cat', '')}: {(end - begin) / 1e3:.3f} ms, "
                    f"{len(group)} instructions")
            out.append(rectangle(self.x(begin), y, (end - begin) * self.scale, LANE, COLOURS[kind_of(group[0])], told,
                                 border((end - begin) * self.scale)))
        return out + self.names(events, y)

    def merged(self, events):
        """Neighbours of one kind that are too narrow to be seen alone."""
        groups = []
        for event in events:
            last = groups[-1] if groups else None
            narrow = event["dur"] * self.scale < MERGE
            if last and narrow and kind_of(last[0]) == kind_of(event) and \
                    (event["ts"] - last[-1]["ts"] - last[-1]["dur"]) * self.scale < MERGE:
                last.append(event)
            else:
                groups.append([event])
        return groups

    def names(self, events, y):
        """The part of the network that a stretch of instructions belongs to, where there is room for its name."""
        out, runs = [], []
        for event in events:
            key = kind_of(event), short(event.get("cat", ""))
            apart = (event["ts"] - runs[-1][2]) * self.scale if runs else 0
            if runs and runs[-1][0] == key and apart < 4:
                runs[-1][2] = event["ts"] + event["dur"]
            elif event["dur"] * self.scale >= 1 or not runs:
                runs.append([key, event["ts"], event["ts"] + event["dur"]])
        for (_, name), begin, end in runs:
            if name and (end - begin) * self.scale > 8 * len(name) + 6:
                out.append(text(self.x((begin + end) / 2), y + LANE / 2 + 5, name, "middle",
                                ' font-size="13" fill="#222"'))
        return out

    def collectives(self, events, came, top):
        out = []
        for place, event in enumerate(events):
            y = top + LANE + LANE_GAP if event["args"].get("lane") == "comm" else top
            begin, end = event["ts"], event["ts"] + event["dur"]
            met = min(max(begin, came[place]), end) if came else begin
            megabytes = event["args"].get("bytes", 0) / 2 / 1e6  # of what goes in; the trace counts what comes out, too
            told = f"{event['name']} of {megabytes:.2f} MB: waits {(met - begin) / 1e3:.3f} ms, " \
                   f"then {(end - met) / 1e3:.3f} ms"
            if met > begin:
                out.append(rectangle(self.x(begin), y, (met - begin) * self.scale, LANE,
                                     COLOURS["waits for the others"], told))
            out.append(rectangle(self.x(met), y, (end - met) * self.scale, LANE, COLOURS["collective"], told,
                                 border((end - met) * self.scale)))
            words = f"{megabytes:.1f} MB"
            if (end - met) * self.scale > 7.5 * len(words) + 6:
                out.append(text(self.x((met + end) / 2), y + LANE / 2 + 5, words, "middle",
                                ' font-size="12" fill="#fff"'))
        return out


def legend(y):
    out, x = [], LEFT
    for name, colour in COLOURS.items():
        out.append(f'<rect x="{x}" y="{y - 12}" width="16" height="16" fill="{colour}"/>')
        out.append(text(x + 22, y + 1, name))
        x += 22 + 8 * len(name) + 34
    return out


def draw(named, step, title):
    traces = [(name, Trace(file)) for name, file in named]
    chosen = [(name, trace, trace.median_step() if step is None else step) for name, trace in traces]
    longest = max(trace.span(number)[1] - trace.span(number)[0] for _, trace, number in chosen)
    scale = (WIDTH - LEFT - RIGHT) / longest
    top, out = 74, []
    for name, trace, number in chosen:
        panel = Panel(name, trace, number, top, scale)
        out += panel.draw()
        top += panel.height + 14
    head = [text(LEFT, 28, title, extra=' font-size="19" font-weight="bold"'), *legend(58)]
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top + 6}" width="{WIDTH}" '
            f'height="{top + 6}" font-family="DejaVu Sans, Helvetica, Arial, sans-serif" font-size="14" fill="#222">\n'
            f'<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(head + out) + "\n</svg>\n")


def record(build, overlap, work):
    """A trace of ResNet-18 on two processes that reach each other through Gloo, in buckets of 4 MB."""
    file, trace = work / "job.yaml", work / f"overlap-{overlap}.json"
    file.write_text(json.dumps({
        "model": {"name": "resnet18"},
        "data": {"name": "fashion_mnist", "batch": 16, "train_limit": 1000, "test_limit": 64},
        "optimizer": {"name": "sgd", "lr": 0.02, "momentum": 0.9},
        "train": {"steps": 16, "seed": 1, "folder": str(work / "run"), "export": False, "resume": "none"},
        "monitor": {"tensorboard": False},
        "distribute": {"bucket_mb": 4, "overlap": overlap}}))
    program = built(Path(build) / "bin" / "starling")
    subprocess.run([program, "launch", "-n", "2", "--backend", "gloo", str(file), "--trace", str(trace)], check=True)
    return str(trace)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="*", metavar="[TITLE=]FILE")
    parser.add_argument("--build", help="record traces with this build, with overlap and without")
    parser.add_argument("-o", "--out", required=True)
    parser.add_argument("--step", type=int, help="which of the recorded steps, from 0")
    parser.add_argument("--title", default="A training step of all ranks")
    args = parser.parse_args()
    if bool(args.build) == bool(args.traces):
        parser.error("expected traces, or --build to record some")
    if args.build:
        with tempfile.TemporaryDirectory() as work:
            named = [(name, record(args.build, overlap, Path(work))) for name, overlap in
                     (("buckets are reduced while backward goes on", True), ("overlap: false", False))]
            title = "ResNet-18 on two processes over Gloo: one training step"
            Path(args.out).write_text(draw(named, args.step, title))
        return
    named = [tuple(given.split("=", 1)) if "=" in given else (Path(given).stem, given) for given in args.traces]
    Path(args.out).write_text(draw(named, args.step, args.title))


if __name__ == "__main__":
    main()
