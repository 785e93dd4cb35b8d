"""How much of a trace's collectives ran while the same rank computed."""

import gzip
import json
from pathlib import Path

COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "ordered_sum", "broadcast")


def read(file: Path) -> list:
    opened = gzip.open(file, "rt") if file.suffix == ".gz" else open(file)
    with opened as text:
        return [event for event in json.load(text)["traceEvents"] if event.get("ph") == "X"]


def merged(spans: list) -> list:
    """Sorted spans that do not touch each other."""
    out = []
    for begin, end in sorted(spans):
        if out and begin <= out[-1][1]:
            out[-1][1] = max(out[-1][1], end)
        else:
            out.append([begin, end])
    return out


def common(a: list, b: list) -> float:
    """The length that two lists of merged spans have in common."""
    total, i, j = 0.0, 0, 0
    while i < len(a) and j < len(b):
        total += max(0.0, min(a[i][1], b[j][1]) - max(a[i][0], b[j][0]))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return total


def overlap(events: list) -> dict:
    """Of all ranks: ms of collectives, and which share of that time a compute instruction of the rank was running."""
    spent = hidden = 0.0
    for rank in {event["pid"] for event in events}:
        own = [event for event in events if event["pid"] == rank]
        spans = {True: [], False: []}
        for event in own:
            spans[event["name"].startswith(COLLECTIVES)].append([event["ts"], event["ts"] + event["dur"]])
        collectives, compute = merged(spans[True]), merged(spans[False])
        spent += sum(end - begin for begin, end in collectives)
        hidden += common(collectives, compute)
    return {"collective_ms": spent / 1e3, "hidden_share": hidden / spent if spent else 0.0}
