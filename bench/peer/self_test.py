"""compare.py against a fake starling: what it reports when all is well, and what it must refuse."""

import contextlib
import datetime
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import compare_memory
from peer import environment
from peer.catalogue import LOSS_TOLERANCE, with_batch
from peer.client import PeerError
from peer.comparison import timed
from peer.ours import Starling

FAKE = Path(__file__).with_name("fake_starling.py")
KEYS = {"net", "ours_ms", "peer_ms", "peer_mode", "ratio", "ours_p10_ms", "peer_p10_ms", "batch", "threads", "phase",
        "torch", "modes", "loss_check", "date", "commit", "others"}


def refuse_constant(name: str):
    raise AssertionError(f"{name} is no JSON")


class Comparison:
    """One call of compare.py's run(): its exit code, its printed text and its JSON lines."""

    def __init__(self, run, python, fault="", nets=("mlp",), modes=("eager",), phase="train", batch=0, others=()):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "lines.jsonl"
            options = SimpleNamespace(nets=list(nets), batch=batch, threads=1, phase=phase, rounds=2, seconds=0.2,
                                      modes=list(modes), json=str(file))
            os.environ["FAKE_STARLING_FAULT"] = fault
            printed = io.StringIO()
            pythons = {name: python for name in ("pytorch", *others)}
            with contextlib.redirect_stdout(printed):
                self.code = run(options, [str(python), str(FAKE)], pythons)
            self.text = printed.getvalue()
            self.lines = [json.loads(line, parse_constant=refuse_constant) for line in file.read_text().splitlines()]


def reports_every_net_with_its_best_mode(run, python):
    done = Comparison(run, python, nets=("mlp", "lenet"), modes=("eager", "channels_last", "compile"))
    assert done.code == 0, done.text
    assert [line["net"] for line in done.lines] == ["mlp", "lenet"], done.lines
    for line, modes in zip(done.lines, [["eager", "compile"], ["eager", "channels_last", "compile"]]):
        assert KEYS <= set(line), KEYS - set(line)
        assert list(line["modes"]) == modes, line["modes"]
        assert line["peer_ms"] == min(mode["ms"] for mode in line["modes"].values()), line
        assert line["ratio"] == line["peer_ms"] / line["ours_ms"] and line["ours_ms"] == 0.5, line
        assert line["loss_check"]["ok"] and line["loss_check"]["max_difference"] <= LOSS_TOLERANCE, line


def times_the_forward_phase(run, python):
    forward = Comparison(run, python, phase="forward").lines[0]
    train = Comparison(run, python).lines[0]
    assert forward["phase"] == "forward" and forward["peer_ms"] < train["peer_ms"], (forward, train)


def refuses_to_time_unequal_losses(run, python):
    for fault in ["losses", "nan", "short"]:
        done = Comparison(run, python, fault)
        assert done.code == 1 and done.lines[0]["ratio"] is None, (fault, done.text)
        assert not done.lines[0]["loss_check"]["ok"] and "LOSSES DIFFER" in done.text, (fault, done.text)


def names_what_is_wrong_with_our_program(run, python):
    told = {"shapes": "expected 0.weight of shape [512, 784], got [511, 784]", "garbage": "expected one JSON line",
            "crash": "asked to crash", "threads": "asked starling bench for threads 1, got 2"}
    for fault, words in told.items():
        done = Comparison(run, python, fault)
        assert done.code == 1 and not done.lines and words in done.text, (fault, done.text)


def compares_networks_of_tokens_at_another_batch(run, python):
    line = Comparison(run, python, nets=("lstm",), batch=2).lines[0]
    assert line["batch"] == 2 and line["loss_check"]["ok"] and line["ratio"] > 0, line


def tells_of_a_peer_that_is_not_there_and_goes_on(run, python):
    done = Comparison(run, python, others=("jax",))  # PyTorch's environment has no JAX
    assert done.code == 0 and done.lines[0]["ratio"] > 0, done.text
    assert "worker ended" in done.lines[0]["others"]["jax"]["error"] and "jax" in done.text, done.text


class FailingPeer:
    """A framework whose worker ends in the middle of a measurement."""

    def __init__(self, framework, fails_in=""):
        self.framework, self.mode, self.fails_in, self.asked = framework, "eager", fails_in, []

    def ask(self, do, **arguments):
        self.asked.append(do)
        if do == self.fails_in:
            raise PeerError(f"{self.framework}'s worker ended during '{do}'")
        return {"variant": "", "trials_ms": {}, "version": "1"} if do == "prepare" else {"step_ms": 3.0, "p10_ms": 2.0}


def keeps_pytorchs_times_where_another_fails_on_the_way(run, python):
    net, options = with_batch("mlp", 0), SimpleNamespace(rounds=3, seconds=0.1, phase="train")
    ours = SimpleNamespace(slice=lambda *_: {"step_ms": 1.0, "p10_ms": 1.0, "peak_bytes": 1})
    for fails_in in ["prepare", "slice"]:
        other = FailingPeer("jax", fails_in)
        line = timed(net, ours, [FailingPeer("pytorch"), other], {}, options)
        assert line["ratio"] == 3.0 and fails_in in line["others"]["jax"]["error"], line
        assert other.asked.count(fails_in) == 1, "it is left out once it has failed"
        try:
            timed(net, ours, [FailingPeer("pytorch", fails_in)], {}, options)
        except PeerError:
            continue
        raise AssertionError("there is no line without PyTorch's times")


def dates_every_line(run, python):
    line = Comparison(run, python).lines[0]
    assert datetime.datetime.fromisoformat(line["date"]).tzinfo is not None, line
    assert line["commit"] is None or re.fullmatch(r"[0-9a-f]{10,}\+?", line["commit"]), line


def compares_memory_above_a_warm_start(run, python):
    os.environ["FAKE_STARLING_FAULT"] = ""
    net = with_batch("sae_big", 64)
    line = compare_memory.compare(net, Starling([str(python), str(FAKE)], 1), python)
    weights = 4 * (784 * 800 + 800 * 1000 + 1000 * 2000 + 2000 * 10)
    assert 2 * weights <= line["peer_bytes"] <= 8 * weights, "weights, gradients and velocities, but no libraries"
    assert line["memory_share"] == 5_000_000 / line["peer_bytes"] and line["peer_mode"] == "eager", line
    assert "sae_big" in compare_memory.row(line)


def exits_with_3_when_no_index_can_be_reached(run, python):
    with tempfile.TemporaryDirectory() as folder:
        script = f"from pathlib import Path; from peer import environment; environment.ensure(Path({folder!r}) / 'v')"
        bare = {key: value for key, value in os.environ.items() if not key.startswith("PIP_")}
        done = subprocess.run([sys.executable, "-c", script], cwd=FAKE.parents[1], capture_output=True, text=True,
                              env={**bare, "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull})
    assert done.returncode == environment.EXIT_NO_INDEX, done
    assert "no package index within reach" in done.stderr, done.stderr


def main(run, python) -> int:
    failures = 0
    for test in [reports_every_net_with_its_best_mode, times_the_forward_phase, refuses_to_time_unequal_losses,
                 names_what_is_wrong_with_our_program, compares_networks_of_tokens_at_another_batch,
                 tells_of_a_peer_that_is_not_there_and_goes_on, keeps_pytorchs_times_where_another_fails_on_the_way,
                 dates_every_line, compares_memory_above_a_warm_start,
                 exits_with_3_when_no_index_can_be_reached]:
        try:
            test(run, python)
            print(f"ok      {test.__name__}", flush=True)
        except AssertionError as error:
            failures += 1
            print(f"FAILED  {test.__name__}: {error}", flush=True)
    return 1 if failures else 0
