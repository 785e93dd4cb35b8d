#!/usr/bin/env python3
"""Reads JSON lines of both sides and prints one row per net: medians over rounds, the peer's best mode, the ratio."""

import json
import statistics
import sys


def median_of(rows: list) -> float:
    return statistics.median(row["step_ms"] for row in rows)


def main() -> None:
    rows = [json.loads(line) for line in open(sys.argv[1]) if line.startswith("{")]
    for row in rows:
        if "error" in row:
            print(f"# {row['net']} {row['mode']}: {row['error']}", file=sys.stderr)
    rows = [row for row in rows if "step_ms" in row]
    print(f"{'net':<10} {'ours ms':>9} {'p10':>9} {'peer ms':>9} {'peer/ours':>9}  peer mode")
    for net in dict.fromkeys(row["net"] for row in rows):
        ours = [row for row in rows if row["net"] == net and row.get("who") != "pytorch"]
        peers = {}
        for row in rows:
            if row["net"] == net and row.get("who") == "pytorch":
                peers.setdefault(row["mode"], []).append(row)
        if not ours or not peers:
            continue
        mode = min(peers, key=lambda name: median_of(peers[name]))
        mine, theirs = median_of(ours), median_of(peers[mode])
        p10 = min(row["p10_ms"] for row in ours)
        print(f"{net:<10} {mine:>9.4f} {p10:>9.4f} {theirs:>9.4f} {theirs / mine:>9.2f}  {mode}")


if __name__ == "__main__":
    main()
