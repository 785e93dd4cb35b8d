"""A network of one's own trained by a job, objectives written in Python, progress and what notebooks show."""

import importlib.util
import io
import json
import sys

import numpy as np
import pytest

import starling as sl
from starling import _progress


class Net(sl.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = sl.nn.Linear(4, 3)

    def forward(self, x):
        return self.fc(x)


class Watch:
    def __init__(self):
        self.seen = []

    def begin(self, run):
        self.seen.append("begin")

    def step(self, run):
        self.seen.append(run.step)

    def evaluated(self, run):
        self.seen.append(sorted(run.metrics))


def job(folder, **more):
    return {
        "data": {"name": "synthetic", "shape": [4], "classes": 3, "train_samples": 64, "test_samples": 32, "batch": 16},
        "optimizer": {"name": "sgd", "lr": 0.1},
        "train": {"epochs": 2, "seed": 3, "folder": str(folder), **more},
    }


def test_a_job_trains_a_network_of_ones_own(tmp_path):
    sl.manual_seed(1)
    net, watch = Net(), Watch()
    before = net.state_dict()["fc.weight"].numpy().copy()
    summary = sl.train.Trainer(net, job(tmp_path / "run"), callbacks=[watch], quiet=True).fit()
    assert summary["steps"] == 8 and watch.seen[0] == "begin" and watch.seen[1:5] == [1, 2, 3, 4]
    assert not np.array_equal(before, net.state_dict()["fc.weight"].numpy())
    assert json.loads((tmp_path / "run/summary.json").read_text())["weights_hash"] == summary["weights_hash"]
    # The folder holds a saved model, and the run goes on where it was.
    x = np.ones((2, 4), np.float32)
    np.testing.assert_allclose(sl.SavedModel(str(tmp_path / "run/model"))(x).numpy(), net(sl.tensor(x)).numpy(), rtol=1e-5, atol=1e-6)
    again = sl.train.Trainer(Net(), job(tmp_path / "run"), set=["train.epochs=3"], quiet=True).fit()
    assert again["steps"] == 12


def test_the_same_job_ends_in_the_same_weights_with_the_same_layers(tmp_path):
    declared = {"model": {"layers": [{"linear": {"out": 3}}]}, **job(tmp_path / "declared")}
    file = tmp_path / "job.yaml"
    file.write_text(json.dumps({**declared, "train": {**declared["train"], "folder": str(tmp_path / "own")}}))
    want = sl.train.run(declared, quiet=True)
    sl.manual_seed(3)  # the job's: its network draws the same first weights
    got = sl.train.Trainer(sl.nn.declared([{"linear": {"out": 3}}], (4,)), str(file), quiet=True).fit()
    assert got["weights_hash"] == want["weights_hash"]


def test_a_job_with_several_workers_trains_a_network_of_ones_own_on_threads(tmp_path):
    def trained(workers):
        sl.manual_seed(1)
        watch = Watch()
        distribute = {"workers": workers, "deterministic": True}
        trainer = sl.train.Trainer(Net(), {**job(tmp_path / str(workers)), "distribute": distribute}, callbacks=[watch], quiet=True)
        return trainer.fit()["weights_hash"], watch.seen

    assert trained(1) == trained(2) == trained(3)
    plain = sl.train.Trainer(Net(), {**job(tmp_path / "plain"), "distribute": {"workers": 2}}, quiet=True).fit()
    assert plain["steps"] == 8


def test_an_option_that_a_job_decides_is_not_given_twice(tmp_path):
    with pytest.raises(TypeError, match="epochs.*in the job"):
        sl.train.Trainer(Net(), job(tmp_path), epochs=4)
    with pytest.raises(TypeError, match="without data"):
        sl.train.Trainer(Net(), job(tmp_path), quiet=True).fit("synthetic")
    with pytest.raises(TypeError, match="beside a job only"):
        net = Net()
        sl.train.Trainer(net, sl.optim.SGD(net.parameters(), lr=0.1), set=["train.epochs=2"])
    with pytest.raises(TypeError, match="expected data"):
        sl.train.Trainer(net, sl.optim.SGD(net.parameters(), lr=0.1)).fit()
    with pytest.raises(sl.Error, match="allreduce without codec.*got local_sgd.*starling launch"):
        sl.train.Trainer(Net(), {**job(tmp_path), "distribute": {"workers": 2, "strategy": "local_sgd"}}, quiet=True).fit()
    with pytest.raises(sl.Error, match="got codec"):
        sl.train.Trainer(Net(), {**job(tmp_path), "distribute": {"workers": 2, "codec": "fp16"}}, quiet=True).fit()
    with pytest.raises(sl.Error, match="did you mean 'momentum'"):
        sl.train.Trainer(Net(), {**job(tmp_path), "optimizer": {"name": "sgd", "momentun": 1}})


def blobs(n=96):
    generator = np.random.default_rng(0)
    y = generator.integers(0, 3, n)
    return (generator.normal(size=(n, 4)) + 2 * y[:, None]).astype(np.float32), y


def test_an_objective_may_be_a_function():
    x, y = blobs()

    def judged(net, x, y):
        logits = net(x)
        return sl.cross_entropy(logits, y), logits, y

    def trained(objective, **options):
        sl.manual_seed(1)
        net = Net()
        trainer = sl.train.Trainer(net, sl.optim.SGD(net.parameters(), lr=0.1), objective, epochs=3, batch=16, quiet=True, **options)
        return trainer.fit((x, y), (x, y)), net.state_dict()["fc.weight"].numpy().tobytes()

    (by_name, weights), (by_function, same) = trained("classify"), trained(judged, metrics=["accuracy", "loss"])
    assert weights == same
    assert by_function["metrics"]["accuracy"] == by_name["metrics"]["accuracy"] > 0.5
    only_loss, third = trained(lambda net, x, y: sl.cross_entropy(net(x), y))
    assert third == weights and only_loss["metrics"]["loss"] > 0
    with pytest.raises(TypeError, match="returns loss"):
        trained(lambda net, x, y: "nonsense")
    with pytest.raises(TypeError, match="name of an objective"):
        trained(5)


def test_progress_goes_where_pythons_errors_go(capsys, tmp_path):
    class Noted:
        def step(self, run):
            if run.step == 2:
                run.note("half way")

    sl.train.run({**job(tmp_path), "model": "mlp"}, callbacks=[Noted()])
    told = capsys.readouterr().err
    assert "half way" in told and "epoch 2/2" in told and "\x1b" not in told


def test_a_line_in_a_notebook_covers_the_one_before():
    stream = io.StringIO()
    line = _progress._NotebookLine(stream)
    line("\rloss 0.123\x1b[K")
    line("\rloss 1\x1b[K")
    line("done\n")
    assert stream.getvalue() == "\rloss 0.123\rloss 1    done\n"


class BrokenStream(io.StringIO):
    def write(self, text):
        raise OSError("no space left")


def test_a_stream_that_fails_does_not_end_a_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "unraisablehook", lambda what: None)
    monkeypatch.setattr(sys, "stderr", BrokenStream())
    assert sl.train.run({**job(tmp_path), "model": "mlp"})["steps"] == 8


def test_summaries_are_tables_in_notebooks(tmp_path):
    summary = sl.train.run({**job(tmp_path), "model": "mlp"}, quiet=True)
    shown = summary._repr_html_()
    assert shown.startswith("<table>") and "weights_hash" in shown and isinstance(summary, dict)
    assert "<pre>" in sl.ones((2, 2))._repr_html_()


def test_networks_trainers_and_runs_are_tables_in_notebooks(tmp_path):
    class Nested(sl.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = Net()
            self.body = sl.nn.Sequential(sl.nn.Linear(3, 8), sl.nn.Linear(8, 2))

        def forward(self, x):
            return self.body(self.net(x))

    shown = Nested()._repr_html_()
    for row in ("<td>Nested</td><td>65</td>", "<td>net.fc</td><td>Linear</td><td>15</td>", "<td>body.1</td><td>Linear</td><td>18</td>"):
        assert row in shown, shown
    assert "<table>" in sl.zoo.lenet()._repr_html_() and "conv" in sl.zoo.lenet()._repr_html_()
    net = Net()
    trainer = sl.train.Trainer(net, sl.optim.SGD(net.parameters(), lr=0.1), epochs=3, folder="<b>", quiet=True)
    assert "epochs=3" in trainer._repr_html_() and "&lt;b&gt;" in trainer._repr_html_() and "Linear" in trainer._repr_html_()
    assert "by a job" in sl.train.Trainer(net, job(tmp_path), quiet=True)._repr_html_()
    told = []

    class Shown:
        def evaluated(self, run):
            told.append(run._repr_html_())

    x, y = blobs()
    sl.train.Trainer(net, sl.optim.SGD(net.parameters(), lr=0.1), callbacks=[Shown()], quiet=True).fit((x, y), (x, y))
    assert "<td>step</td><td>2</td>" in told[0] and "accuracy" in told[0]


NOTEBOOK = """
import starling as sl
job = {"model": "mlp", "data": {"name": "synthetic", "train_samples": 64, "batch": 16}, "optimizer": {"name": "sgd", "lr": 0.1},
       "train": {"epochs": 2, "folder": "run"}}
"""


@pytest.mark.tools
def test_a_real_notebook_shows_tensors_runs_and_progress(tmp_path):
    for name in ("nbclient", "ipykernel"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    import nbclient
    import nbformat

    cells = [NOTEBOOK, "sl.ones((2, 2))", "sl.train.run(job)", "step = sl.compile(lambda x: x * 2); step(sl.ones(2)); step"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [{output.get("name", "result"): output for output in cell.outputs} for cell in notebook.cells]
    progress = "".join(output.text for output in notebook.cells[2].outputs if output.get("name") == "stderr")
    assert "<pre>" in outputs[1]["result"].data["text/html"]
    assert "<table>" in outputs[2]["result"].data["text/html"]
    assert "epoch 2/2" in progress and "\x1b" not in progress
    assert "<details>" in outputs[3]["result"].data["text/html"]
