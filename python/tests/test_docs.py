"""The Python blocks of docs/python.md run as they stand, one after the other."""

import re
import sys
import types
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/python.md"


def test_the_page_runs_as_it_stands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"(<!-- not run: [^\n]*-->\n)?```python\n(.*?)```", PAGE.read_text(), re.S)
    assert len(blocks) >= 5
    page = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", page)  # classes of a program can be pickled
    for skipped, block in blocks:
        if not skipped:
            exec(compile(block, str(PAGE), "exec"), page.__dict__)
    printed = capsys.readouterr().out
    assert "12.0" in printed and "accuracy" in printed and "48.0" in printed
    assert (tmp_path / "runs/from_python/summary.json").exists()
