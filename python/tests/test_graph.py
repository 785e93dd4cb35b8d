"""Graphs built by hand and sessions that run parts of them."""

import threading

import numpy as np
import pytest

import starling as sl


def line():
    with sl.graph.Builder() as b:
        x = b.placeholder("x", "f32", (8, 2))
        w = b.variable("w", sl.tensor([[1.0], [2.0]]))
        y = b.name("y", x @ w)
        loss = b.name("loss", y.square().mean())
        b.assign(w, w - 0.1 * b.gradients(loss, [w])[0], "train")
    return b.graph


def test_a_session_runs_what_is_asked_for():
    session = sl.graph.Session(line())
    x = np.arange(16, dtype=np.float32).reshape(8, 2) / 16
    np.testing.assert_allclose(session.run("y", {"x": x}).numpy(), x @ [[1], [2]], rtol=1e-6)
    assert session.value("w").tolist() == [[1], [2]]
    losses = [session.run("loss", {"x": x}, targets=["train"]).item() for _ in range(20)]
    assert losses[-1] < losses[0] / 2 and session.variables() == ["w"]
    session.reset()
    y, loss = session.run(["y", "loss"], {"x": x})
    assert loss.item() == losses[0] and y.shape == (8, 1)
    assert session.run("loss", {"y": np.zeros((8, 1), np.float32)}).item() == 0  # any edge can be fed


def test_a_graph_is_text_and_comes_back():
    graph = line()
    assert "matmul" in str(graph) and "<pre>" in graph._repr_html_()
    session = sl.graph.Session(str(graph))
    session.set("w", sl.ones((2, 1)))
    assert session.run("y", {"x": np.ones((8, 2), np.float32)}).tolist() == [[2.0]] * 8


def test_an_optimizer_inside_a_graph():
    net = sl.nn.Linear(2, 1)
    optimizer = sl.optim.SGD(net.parameters(), lr=0.1)
    with sl.graph.Builder() as b:
        x = b.placeholder("x", "f32", (4, 2))
        loss = b.name("loss", net(x).square().mean())

        def step():
            loss.backward()
            optimizer.step()

        b.updates("train", step)
    session = sl.graph.Session(b.graph)
    x = np.ones((4, 2), np.float32)
    losses = [session.run("loss", {"x": x}, targets=["train"]).item() for _ in range(5)]
    assert losses == sorted(losses, reverse=True) and losses[-1] < losses[0]


def test_several_threads_run_one_session():
    session = sl.graph.Session(line())
    x = np.ones((8, 2), np.float32)
    results = []
    threads = [threading.Thread(target=lambda: results.append(session.run("loss", {"x": x}).item())) for _ in range(4)]
    [t.start() for t in threads]
    [t.join(60) for t in threads]
    assert results == [9.0] * 4


def test_mistakes_are_told():
    session = sl.graph.Session(line())
    with pytest.raises(sl.Error, match="los.*did you mean|loss"):
        session.run("los", {"x": np.ones((8, 2), np.float32)})
    with pytest.raises(sl.Error, match="x"):
        session.run("y")
    with pytest.raises(sl.Error, match=r"\[8, 2\]"):
        session.run("y", {"x": np.ones((3, 2), np.float32)})
    with pytest.raises(TypeError, match="name"):
        session.run(5)
    with pytest.raises(sl.Error, match="'with'"):
        sl.graph.Builder().placeholder("x", "f32", (1,))
    with pytest.raises(ZeroDivisionError):
        with sl.graph.Builder():
            1 / 0
    assert (sl.ones(2) + 1).tolist() == [2, 2]  # the builder that failed has let go of this thread
    with pytest.raises(sl.Error, match="line 1"):
        sl.graph.Session("nonsense")
