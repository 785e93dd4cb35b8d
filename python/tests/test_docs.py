"""The Python of the pages runs as it stands, block after block, and prints what the pages show."""

import contextlib
import io
import re
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest

from ranks import starling_program

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"((?:<!-- [^\n]*-->\n)?)```(\w*)\n(.*?)```", re.S)


def blocks(page):
    """(what the comment before it says, language, text) of every block."""
    return [(said.strip("<!-> \n"), language, text) for said, language, text in BLOCK.findall((DOCS / page).read_text())]


def run_page(page, folder, monkeypatch):
    monkeypatch.chdir(folder)
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)  # classes of a program can be pickled
    printed, everything = "", ""
    for said, language, text in blocks(page):
        if said == "python prints":
            assert printed == text
        elif said.startswith("file: "):
            Path(said.removeprefix("file: ")).write_text(text)
        elif language == "python" and not said.startswith("not run: "):
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(text, str(DOCS / page), "exec"), module.__dict__)
            printed = out.getvalue()
            everything += printed
    return everything


def test_the_page_runs_as_it_stands(tmp_path, monkeypatch):
    printed = run_page("python.md", tmp_path, monkeypatch)
    assert "12.0" in printed and "accuracy" in printed and "48.0" in printed
    assert (tmp_path / "runs/from_python/summary.json").exists()


def test_the_readme_runs_as_it_stands(tmp_path, monkeypatch):
    (text,) = [text for _, language, text in blocks("../README.md") if language == "python"]
    assert "pip install ." in (DOCS / "../README.md").read_text()
    # The same lines over fewer samples, which need no download.
    small = text.replace('"fashion_mnist"', '"synthetic"').replace("batch=64", "batch=64, train_samples=2560, shape=[1, 28, 28]")
    assert small != text
    monkeypatch.chdir(tmp_path)
    page = {}
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(small, "README.md", "exec"), page)
    assert page["loss"].item() < 1 and out.getvalue().strip()
    assert (tmp_path / "model/model.json").exists()


def test_the_tutorial_runs_and_prints_what_it_shows(tmp_path, monkeypatch):
    assert sum(said == "python prints" for said, _, _ in blocks("python_tutorial.md")) >= 12
    run_page("python_tutorial.md", tmp_path, monkeypatch)


def test_the_ranks_of_the_tutorial_print_one_number(tmp_path):
    (program,) = [text for said, _, text in blocks("python_tutorial.md") if said == "file: ranks.py"]
    (commands,) = [text for said, _, text in blocks("python_tutorial.md") if said.startswith("run: no (a test")]
    (tmp_path / "ranks.py").write_text(program)
    printed = {}
    for line in commands.splitlines():
        words = line.split()
        if words[0] == "starling" and not starling_program() or shutil.which(words[0]) is None and words[0] == "mpirun":
            continue
        here = {"starling": [starling_program()], "mpirun": ["mpirun", "--allow-run-as-root", "--oversubscribe"], "python": [sys.executable]}
        command = [part for word in words for part in here.get(word, [word])]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        printed[line] = re.findall(r"\d\.\d{6}", done.stdout)
    assert len(set(map(tuple, printed.values()))) == 1 and printed["python ranks.py"], printed
    if len(printed) < 3:
        pytest.skip(f"only these could be started here: {', '.join(printed)}")
