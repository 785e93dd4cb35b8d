"""Networks made in Python as saved models: run without Python, by the program, by C++, by SavedModel."""

import json
import subprocess

import numpy as np
import pytest

import starling as sl
from ranks import starling_program


class Net(sl.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = sl.nn.Conv2d(1, 4, kernel=3)
        self.norm = sl.nn.BatchNorm2d(4)
        self.drop = sl.nn.Dropout(0.5)
        self.fc = sl.nn.Linear(4 * 6 * 6, 3)
        self.scale = sl.nn.Parameter(sl.ones(3))

    def forward(self, x):
        x = self.drop(self.norm(self.conv(x)).relu())
        return self.fc(x.reshape(x.shape[0], -1)) * self.scale


def trained():
    sl.manual_seed(1)
    net = Net()
    net(sl.normal((8, 1, 8, 8)))  # running statistics that are not those of the beginning
    return net


def test_a_network_of_python_runs_from_its_folder(tmp_path):
    net, x = trained(), np.random.default_rng(0).normal(size=(5, 1, 8, 8)).astype(np.float32)
    net.fc.eval()  # modes stay as each part had them
    modes = [part.training for part in net.modules()]
    sl.save_model(net, tmp_path / "model", x[:1], class_names=["a", "b", "c"], task="classify", about={"step": 7})
    assert [part.training for part in net.modules()] == modes and any(modes) and not all(modes)
    net.eval()
    model = sl.SavedModel(str(tmp_path / "model"))
    for n in (1, 2, 5):
        np.testing.assert_allclose(model(x[:n]).numpy(), net(sl.tensor(x[:n])).numpy(), rtol=1e-5, atol=1e-6)
    assert model.parameter_count >= net.parameter_count
    told = json.loads((tmp_path / "model/model.json").read_text())
    assert '"classify"' in json.dumps(told) and '"c"' in json.dumps(told)
    net.fc.weight.assign(net.fc.weight * 0)
    assert np.abs(model(x).numpy()).max() > 0.1  # the model's weights are its own


def test_the_program_runs_a_network_of_python(tmp_path):
    if not starling_program():
        pytest.skip("STARLING_PROGRAM does not name the program `starling`")
    net, x = trained(), np.random.default_rng(1).normal(size=(4, 1, 8, 8)).astype(np.float32)
    net.eval()
    sl.save_model(net, tmp_path / "model", x[:1])
    np.save(tmp_path / "x.npy", x)
    command = [starling_program(), "predict", str(tmp_path / "model"), str(tmp_path / "x.npy"), "--out", str(tmp_path / "y.npy")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), net(sl.tensor(x)).numpy(), rtol=1e-5, atol=1e-6)


def test_several_inputs_outputs_and_functions(tmp_path):
    weight = sl.tensor([[1.0, 2.0], [3.0, 4.0]])

    def both(ids, x):
        picked = weight[ids]
        return picked + x, (picked * x).sum(1)

    ids, x = np.array([1, 0, 1]), np.ones((3, 2), np.float32)
    sl.save_model(both, tmp_path / "model", ids, x, inputs=["ids", "x"], outputs=["sum", "dot"])
    total, dot = sl.SavedModel(str(tmp_path / "model"))(ids, x)
    assert total.tolist() == [[4, 5], [2, 3], [4, 5]] and dot.tolist() == [7, 3, 7]
    layer = sl.nn.Linear(3, 2)  # of the library, not of Python
    sl.save_model(layer, tmp_path / "model", sl.ones((1, 3)))  # replaces the other
    np.testing.assert_allclose(sl.SavedModel(str(tmp_path / "model"))(sl.ones((2, 3))).numpy(), layer(sl.ones((2, 3))).numpy(), rtol=1e-6)


def test_what_cannot_be_saved_is_told(tmp_path):
    net = trained()
    for ask, kind, text in (
        (lambda: sl.save_model(net, tmp_path / "m"), TypeError, "a batch for each input"),
        (lambda: sl.save_model(net, tmp_path / "m", 3.0), ValueError, "first axis"),
        (lambda: sl.save_model(net, tmp_path / "m", np.ones((1, 1, 8, 8), np.float32), inputs=["a", "b"]), ValueError, "1 inputs, got 2"),
        (lambda: sl.save_model(lambda x: x.sum(), tmp_path / "m", sl.ones((2, 3))), sl.Error, "batch as their first axis"),
        (lambda: sl.save_model(lambda x: 1 / 0, tmp_path / "m", sl.ones((2, 3))), ZeroDivisionError, "zero"),
        (lambda: sl.save_model(lambda x: x if x.sum() > 0 else -x, tmp_path / "m", sl.ones((2, 3))), sl.Error, "trace|compile|value"),
    ):
        with pytest.raises(kind, match=text):
            ask()
        assert not (tmp_path / "m").exists()
    assert net.training
