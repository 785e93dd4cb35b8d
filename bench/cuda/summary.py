#!/usr/bin/env python3
"""Reads JSON lines of both sides and prints one row per case (net, batch, precision, phase): medians over rounds, the
peer's best mode, ratios of time and memory. With a second argument, a file, one JSON line per case goes there."""

import json
import statistics
import sys


def median_of(rows: list) -> float:
    return statistics.median(row["step_ms"] for row in rows)


def case_of(row: dict) -> tuple:
    return row["net"], row["batch"], row["dtype"], row["phase"]


def gigabytes(rows: list) -> float:
    return min(row.get("peak_bytes", 0) for row in rows) / 1e9


def compared(case: tuple, rows: list) -> dict | None:
    ours = [row for row in rows if row.get("who") != "pytorch"]
    peers = {}
    for row in rows:
        if row.get("who") == "pytorch":
            peers.setdefault(row["mode"], []).append(row)
    if not ours or not peers:
        return None
    mode = min(peers, key=lambda name: median_of(peers[name]))
    mine, theirs = median_of(ours), median_of(peers[mode])
    net, batch, dtype, phase = case
    return {"net": net, "batch": batch, "dtype": dtype, "phase": phase, "mode": mode, "ours_ms": mine,
            "peer_ms": theirs, "ratio": theirs / mine, "ours_gb": gigabytes(ours), "peer_gb": gigabytes(peers[mode])}


def main() -> None:
    rows = [json.loads(line) for line in open(sys.argv[1]) if line.startswith("{")]
    for row in rows:
        if "error" in row:
            print(f"# {row['net']} {row['mode']}: {row['error']}", file=sys.stderr)
    rows = [row for row in rows if "step_ms" in row]
    print(f"{'net':<12} {'batch':>5} {'type':<5} {'phase':<8} {'ours ms':>9} {'peer ms':>9} {'peer/ours':>9} "
          f"{'ours GB':>8} {'peer GB':>8}  peer mode")
    lines = []
    for case in dict.fromkeys(case_of(row) for row in rows):
        line = compared(case, [row for row in rows if case_of(row) == case])
        if not line:
            continue
        lines.append(json.dumps(line))
        print(f"{line['net']:<12} {line['batch']:>5} {line['dtype']:<5} {line['phase']:<8} {line['ours_ms']:>9.4f} "
              f"{line['peer_ms']:>9.4f} {line['ratio']:>9.2f} {line['ours_gb']:>8.2f} {line['peer_gb']:>8.2f}  "
              f"{line['mode']}")
    if len(sys.argv) > 2:
        with open(sys.argv[2], "w") as out:
            out.write("".join(line + "\n" for line in lines))


if __name__ == "__main__":
    main()
