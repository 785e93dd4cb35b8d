"""Draws series of ratios over time as one SVG: a panel for each network, a line for each series, a bar at 1."""

from html import escape
from math import ceil, floor, log2

COLUMNS = 3
PANEL = (330, 210)
MARGIN = {"left": 46, "right": 12, "top": 34, "bottom": 30}
COLOURS = ["#1f6fb4", "#d1495b", "#2e8b57", "#8e6bbf", "#e09f3e", "#4c5b61", "#00a0a0", "#a05000"]
LEGEND_ROW = 18


def scale_of(values: list) -> tuple:
    """Powers of two around all values and 1: the axis is logarithmic, so that 2× and ½× are equally far from 1."""
    low, high = min([*values, 1.0]), max([*values, 1.0])
    return floor(log2(low)), max(ceil(log2(high)), floor(log2(low)) + 1)


class Panel:
    """Where dates and ratios lie in one panel."""

    def __init__(self, at: tuple, dates: list, values: list):
        width, height = PANEL
        self.left, self.right = at[0] + MARGIN["left"], at[0] + width - MARGIN["right"]
        self.top, self.bottom = at[1] + MARGIN["top"], at[1] + height - MARGIN["bottom"]
        self.first, self.last = min(dates), max(dates)
        self.low, self.high = scale_of(values)

    def x(self, date) -> float:
        span = (self.last - self.first).total_seconds()
        share = (date - self.first).total_seconds() / span if span > 0 else 0.5
        return self.left + share * (self.right - self.left)

    def y(self, ratio: float) -> float:
        share = (log2(ratio) - self.low) / (self.high - self.low)
        return self.bottom - share * (self.bottom - self.top)


def text(x: float, y: float, words: str, anchor: str = "start", extra: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{extra}>{escape(words)}</text>'


def axes(panel: Panel, title: str) -> list:
    out = [text(panel.left, panel.top - 12, title, extra=' font-weight="bold"')]
    for power in range(panel.low, panel.high + 1):
        y = panel.y(2.0 ** power)
        colour, width = ("#333", 1.2) if power == 0 else ("#ddd", 0.8)
        out.append(f'<line x1="{panel.left}" x2="{panel.right}" y1="{y:.1f}" y2="{y:.1f}" stroke="{colour}" '
                   f'stroke-width="{width}"/>')
        out.append(text(panel.left - 6, y + 4, f"{2.0 ** power:g}×", "end"))
    out.append(text(panel.left, panel.bottom + 18, f"{panel.first:%Y-%m-%d}"))
    if panel.last.date() != panel.first.date():
        out.append(text(panel.right, panel.bottom + 18, f"{panel.last:%Y-%m-%d}", "end"))
    return out


def line(panel: Panel, name: str, points: list, colour: str) -> list:
    places = [(panel.x(date), panel.y(ratio)) for date, ratio, _ in points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    out = [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>'] if len(places) > 1 else []
    for (x, y), (date, ratio, commit) in zip(places, points):
        told = escape(f"{name}: {ratio:.2f}× on {date:%Y-%m-%d} ({commit})")
        out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"><title>{told}</title></circle>')
    return out


def legend(names: list, colours: dict, top: float) -> list:
    out = []
    for i, name in enumerate(names):
        x, y = 20 + i % COLUMNS * PANEL[0], top + i // COLUMNS * LEGEND_ROW
        out.append(f'<circle cx="{x}" cy="{y - 4:.1f}" r="4" fill="{colours[name]}"/>')
        out.append(text(x + 10, y, name))
    return out


def draw(nets: dict) -> str:
    """nets: name → {series → [(date, ratio, commit)]}. The whole picture, the same bytes for the same results."""
    names = sorted({series for of_net in nets.values() for series in of_net})
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(names)}
    head = 30 + LEGEND_ROW * ceil(len(names) / COLUMNS)
    width, height = PANEL[0] * min(COLUMNS, len(nets)), head + PANEL[1] * ceil(len(nets) / COLUMNS)
    body = [text(20, 20, "Speed beside PyTorch's best mode (above 1×: faster)", extra=' font-size="14"'),
            *legend(names, colours, 42)]
    for i, (net, series) in enumerate(sorted(nets.items())):
        points = [point for of_series in series.values() for point in of_series]
        panel = Panel((i % COLUMNS * PANEL[0], head + i // COLUMNS * PANEL[1]),
                      [date for date, _, _ in points], [ratio for _, ratio, _ in points])
        body += axes(panel, net)
        for name, of_series in sorted(series.items()):
            body += line(panel, name, of_series, colours[name])
    width = max(width, 2 * PANEL[0])
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
            f'font-size="11">\n<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(body) + "\n</svg>\n")
