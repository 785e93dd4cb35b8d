"""The printed table: one row per network, then the times of all the peer's modes."""

HEADER = f"{'net':<12} {'batch':>5} {'thr':>3} {'phase':<8} {'ours ms (p10)':>19} {'peer ms (p10)':>19} {'ratio':>6}" \
         f"  {'best peer mode':<40} losses"


def pair(median: float, p10: float) -> str:
    return f"{median:.3f} ({p10:.3f})"


def row(line: dict) -> str:
    check = line["loss_check"]
    start = f"{line['net']:<12} {line['batch']:>5} {line['threads']:>3} {line['phase']:<8} "
    if not check["ok"]:
        return start + (f"LOSSES DIFFER by {check['max_difference']} over {check['steps']} steps, "
                        f"{check['not_finite']} of them not finite: not timed")
    ours = pair(line["ours_ms"], line["ours_p10_ms"])
    peer = pair(line["peer_ms"], line["peer_p10_ms"])
    mode = f"{line['peer_mode']} ({line['peer_variant']})"
    warning = "  DISTURBED: median far above p10, measure again" if line["disturbed"] else ""
    return start + (f"{ours:>19} {peer:>19} {line['ratio']:>5.2f}x  {mode:<40} "
                    f"within {check['max_difference']:.1e}{warning}")


def modes(line: dict) -> str:
    """All modes of one network, in the order they were asked for."""
    times = [f"{name} {pair(mode['ms'], mode['p10_ms'])}" for name, mode in line.get("modes", {}).items()]
    return f"{'':<12} peer: " + ", ".join(times)


def others(line: dict) -> list:
    """One row for each framework beside PyTorch, in the columns of the network's own."""
    rows = []
    for name, other in line.get("others", {}).items():
        start = f"{'  ' + name:<12} {line['batch']:>5} {line['threads']:>3} {line['phase']:<8} "
        if "error" in other:
            rows.append(start + f"not timed: {other['error']}")
        else:
            rows.append(start + f"{'':>19} {pair(other['ms'], other['p10_ms']):>19} {other['ratio']:>5.2f}x  "
                        + ", ".join(f"{mode} {pair(t['ms'], t['p10_ms'])}" for mode, t in other["modes"].items()))
    return rows
