"""Stubs and annotations under mypy --strict and pyright, where they are installed; names of the stubs are names of the package."""

import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

import starling as sl

PACKAGE = pathlib.Path(sl.__file__).parent
EXAMPLE = pathlib.Path(__file__).parents[2] / "examples/python/typed_lenet.py"


def mypy(tmp_path, *arguments):
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed")
    environment = dict(os.environ, MYPYPATH=str(PACKAGE.parent))
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)


WRONG = """
import starling as sl
sl.nn.MaxPool2d(kernels=2)
sl.optim.Adam([], learning_rate=1)
x: int = sl.ones(2).sum()
sl.ones(2).summ()
"""


def test_the_package_and_an_example_are_strictly_typed(tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text(WRONG)
    done = mypy(tmp_path, str(PACKAGE), str(EXAMPLE), str(wrong))
    told = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert [line for line in told if "wrong.py:" not in line] == [] and done.stderr == ""
    for line, text in ((3, "kernels"), (4, "learning_rate"), (5, "Incompatible types"), (6, "summ")):
        assert re.search(rf"wrong\.py:{line}: error: .*{text}", done.stdout), done.stdout


@pytest.mark.tools
def test_pyright_accepts_the_package_and_sees_mistakes(tmp_path):
    if importlib.util.find_spec("pyright") is None:
        pytest.skip("pyright is not installed")
    wrong = tmp_path / "wrong.py"
    wrong.write_text(WRONG)
    settings = {"include": [str(PACKAGE), str(EXAMPLE), str(wrong)], "extraPaths": [str(PACKAGE.parent)], "typeCheckingMode": "standard"}
    project = tmp_path / "pyrightconfig.json"
    project.write_text(json.dumps({**settings, "pythonVersion": "3.10", "reportMissingModuleSource": False}))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(project)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if not done.stdout.startswith("{"):
        pytest.skip("pyright cannot get the program that it runs on: " + (done.stdout + done.stderr)[-200:])
    told = [one for one in json.loads(done.stdout)["generalDiagnostics"] if one["severity"] == "error"]
    elsewhere = [one for one in told if not one["file"].endswith("wrong.py")]
    assert elsewhere == [], "\n".join(f"{one['file']}:{one['range']['start']['line'] + 1}: {one['message']}" for one in elsewhere)
    lines = {one["range"]["start"]["line"] + 1 for one in told}
    assert lines == {3, 4, 5, 6}, told


def test_the_example_learns(capsys):
    spec = importlib.util.spec_from_file_location("typed_lenet", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.main("synthetic", 20)
    assert float(capsys.readouterr().out.split()[-1]) > 0.8


@pytest.mark.parametrize("module", ["nn", "optim", "schedules", "metrics", "zoo", "dist", "op"])
def test_stubs_name_what_is_there(module):
    stub = (PACKAGE / f"_typed_{module}.pyi").read_text()
    names = re.findall(r"^(?:class|def) ([A-Za-z]\w*)|^([A-Za-z]\w*): _\w+", stub, flags=re.M)
    assert len(names) > 3
    for name in map("".join, names):
        assert hasattr(getattr(sl, module), name), name


def test_methods_of_the_stub_are_methods_of_tensors():
    stub = (PACKAGE / "_starling.pyi").read_text()
    (body,) = re.findall(r"^class Tensor:\n(.*?)^\S", stub, flags=re.M | re.S)
    names = set(re.findall(r"^    def (\w+)", body, flags=re.M))
    assert {"sum", "reshape", "__iadd__", "backward", "T", "numpy"} <= names
    assert [name for name in sorted(names) if not hasattr(sl.Tensor, name)] == []
