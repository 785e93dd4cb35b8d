#!/usr/bin/env python3
"""Draws how fast we are beside PyTorch over time: one panel for each network, from the results kept in bench/results.

    bench/plot.py                       # bench/results/*.jsonl → bench/results/speed.svg
    bench/plot.py --results FOLDER --out FILE.svg

Lines of compare.py count: those with net, ratio, threads, phase; also those that git remembers of the same files, so
that a result which was measured anew stays in the picture. A line without a date takes that of the commit that brought
it. The standard library is all it needs.
"""

import argparse
import datetime
import json
import sys
from pathlib import Path

from peer import history, svg

RESULTS = Path(__file__).resolve().parent / "results"


def parse_date(text: str) -> datetime.datetime:
    """Always with a zone: results of several machines are in one series."""
    date = datetime.datetime.fromisoformat(text)
    return date if date.tzinfo else date.replace(tzinfo=datetime.timezone.utc)


def versions(file: Path) -> list:
    """(date, commit, text) of the file as it was committed, oldest first, and as it lies there."""
    found = []
    for entry in reversed(history.git("log", "--format=%h %cI", "--", file.name, folder=file.parent).splitlines()):
        commit, date = entry.split()
        text = history.git("show", f"{commit}:./{file.name}", folder=file.parent)
        found.append((parse_date(date), commit, text))
    written = datetime.datetime.fromtimestamp(file.stat().st_mtime, datetime.timezone.utc)
    return [*found, (written, None, file.read_text())]


def comparisons(name: str, text: str) -> list:
    """The comparisons among the lines of one file; throws naming file and line where it is no JSON."""
    lines = []
    for number, line_text in enumerate(text.splitlines(), 1):
        if not line_text.strip():
            continue
        try:
            line = json.loads(line_text)
        except json.JSONDecodeError as error:
            raise ValueError(f"{name}:{number}: expected a JSON line, got {line_text[:60]!r} ({error})") from error
        if isinstance(line, dict) and line.get("ratio") and {"net", "threads", "phase"} <= set(line):
            lines.append(line)
    return lines


def read_file(file: Path) -> list:
    """(date, commit, line) of every comparison that the file holds or held, each once, as it was written last."""
    found = {}
    for date, commit, text in versions(file):
        for line in comparisons(file.name, text):
            # A measurement whose labels were corrected is the same measurement.
            key = json.dumps({name: line[name] for name in line if name not in ("commit", "machine")}, sort_keys=True)
            own = parse_date(line["date"]) if line.get("date") else found.get(key, (date,))[0]
            found[key] = (own, line.get("commit") or found.get(key, (None, commit))[1], line)
    return list(found.values())


def read_points(folder: Path) -> dict:
    """net → {series name → [(date, ratio, commit)] in order of time}; a series is a phase, threads, batch, device and
    machine (where a line names one: other machines than the usual)."""
    found = [entry for file in sorted(folder.glob("*.jsonl")) for entry in read_file(file)]
    usual = {}
    for _, _, line in found:
        usual.setdefault(line["net"], line.get("batch"))
    nets = {}
    for date, commit, line in sorted(found, key=lambda entry: entry[0]):
        threads = f"{line['threads']} thread" + ("s" if line["threads"] != 1 else "")
        batch = f", batch {line['batch']}" if line.get("batch") != usual[line["net"]] else ""
        device = f", {line['device']}" if line.get("device", "cpu") != "cpu" else ""
        machine = f", {line['machine']}" if line.get("machine") else ""
        series = f"{line['phase']}, {threads}{batch}{device}{machine}"
        nets.setdefault(line["net"], {}).setdefault(series, []).append((date, line["ratio"], commit or "?"))
    return nets


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--out", type=Path, help="default: speed.svg in the folder of the results")
    parser.add_argument("--self-test", action="store_true", help="draws made-up results and looks at the picture")
    options = parser.parse_args()
    if options.self_test:
        from peer import plot_test
        return plot_test.main(read_points)
    try:
        nets = read_points(options.results)
    except (OSError, ValueError) as error:
        print(f"[plot] {error}", file=sys.stderr)
        return 1
    if not nets:
        print(f"[plot] expected lines of compare.py in {options.results}/*.jsonl, got none", file=sys.stderr)
        return 1
    out = options.out or options.results / "speed.svg"
    out.write_text(svg.draw(nets))
    print(f"{out}: {sum(len(points) for series in nets.values() for points in series.values())} results of "
          f"{len(nets)} networks")
    return 0


if __name__ == "__main__":
    sys.exit(main())
