"""bench/plot.py on made-up results: what it must show, what it leaves out and what it refuses."""

import json
import tempfile
import xml.etree.ElementTree as xml
from pathlib import Path

from peer import svg

SPACE = "{http://www.w3.org/2000/svg}"


def result(net="mlp", ratio=1.5, date="2026-11-01T10:00:00+00:00", commit="aaaa", **more) -> dict:
    return {"net": net, "ratio": ratio, "threads": 2, "phase": "train", "batch": 64, "date": date, "commit": commit,
            **more}


class Picture:
    def __init__(self, read_points, lines: list):
        with tempfile.TemporaryDirectory() as folder:
            text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
            (Path(folder) / "compare-1.jsonl").write_text(text)
            self.nets = read_points(Path(folder))
        self.text = svg.draw(self.nets)
        self.root = xml.fromstring(self.text)

    def all(self, tag: str) -> list:
        return list(self.root.iter(SPACE + tag))

    def dots(self) -> list:
        """The dots of results, as (x, y, what they tell)."""
        return [(float(c.get("cx")), float(c.get("cy")), c.find(SPACE + "title").text) for c in self.all("circle")
                if c.find(SPACE + "title") is not None]


def draws_a_dot_for_each_result_in_order_of_time(read_points):
    later, first = result(ratio=2.0, date="2026-11-03T10:00:00+00:00", commit="bbbb"), result(ratio=1.0)
    picture = Picture(read_points, [later, first])
    dots = picture.dots()
    assert len(dots) == 2 and len(picture.all("polyline")) == 1, picture.text
    (x1, y1, told1), (x2, y2, told2) = dots
    assert x1 < x2 and y1 > y2, "time goes right, faster goes up"
    assert "1.00×" in told1 and "aaaa" in told1 and "2.00×" in told2 and "bbbb" in told2, (told1, told2)


def has_a_panel_for_each_net_and_a_series_for_each_kind_of_run(read_points):
    picture = Picture(read_points, [result(), result(threads=1), result(phase="forward"), result(batch=16),
                                    result(net="lenet", ratio=0.5)])
    assert set(picture.nets) == {"mlp", "lenet"}
    assert len(picture.nets["mlp"]) == 4, picture.nets["mlp"].keys()
    words = [t.text for t in picture.all("text")]
    assert {"mlp", "lenet", "0.5×", "1×", "train, 1 thread", "train, 2 threads, batch 16"} <= set(words), words


def leaves_out_what_was_not_timed(read_points):
    picture = Picture(read_points, [result(), result(ratio=None), {"case": "add8", "median_us": 1}])
    assert len(picture.dots()) == 1, picture.text


def ratios_below_and_above_one_lie_on_their_sides_of_the_bar(read_points):
    picture = Picture(read_points, [result(ratio=0.8), result(ratio=3.1, date="2026-11-02T00:00:00+00:00")])
    bar = next(float(l.get("y1")) for l in picture.all("line") if l.get("stroke") == "#333")
    (_, slow, _), (_, fast, _) = picture.dots()
    assert fast < bar < slow, (fast, bar, slow)


def names_the_line_that_is_no_json(read_points):
    try:
        Picture(read_points, [result(), "{broken"])
    except ValueError as error:
        assert "compare-1.jsonl:2" in str(error), error
    else:
        raise AssertionError("expected an error")


def is_the_same_for_the_same_results(read_points):
    lines = [result(), result(net="gpt & co", ratio=1.2)]
    assert Picture(read_points, lines).text == Picture(read_points, lines[::-1]).text


def main(read_points) -> int:
    failures = 0
    for test in [draws_a_dot_for_each_result_in_order_of_time, leaves_out_what_was_not_timed,
                 has_a_panel_for_each_net_and_a_series_for_each_kind_of_run,
                 ratios_below_and_above_one_lie_on_their_sides_of_the_bar, names_the_line_that_is_no_json,
                 is_the_same_for_the_same_results]:
        try:
            test(read_points)
            print(f"ok      {test.__name__}", flush=True)
        except AssertionError as error:
            failures += 1
            print(f"FAILED  {test.__name__}: {error}", flush=True)
    return 1 if failures else 0
