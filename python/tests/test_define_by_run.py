"""Networks whose graph changes every step and differs from rank to rank, with gradients averaged while backward() runs.

The law of such training: a step of several ranks is the step of one process on the samples of all of them.
"""

import shutil

import numpy as np
import pytest

from ranks import run_script, starling_program, told_by_ranks

# Every rank walks through other layers in every step; some are used by one rank alone, one by none.
PROGRAM = """
    import json, pathlib, sys, numpy as np, starling as sl
    sl.dist.init()
    rank, size = sl.dist.rank(), sl.dist.size()
    REDUCES = {reduces}
    sl.manual_seed(5)
    layers = [sl.nn.Linear(4, 4) for _ in range(4)]
    head = sl.nn.Linear(4, 2)
    unused = sl.nn.Linear(4, 4)
    parameters = [p for layer in (*layers, head, unused) for p in layer.parameters()]
    for i, p in enumerate(parameters): p.name = f"p{{i}}"
    optimizer = sl.optim.SGD(parameters, lr=0.1)
    reducer = sl.dist.GradientReducer(parameters) if REDUCES else None
    data = np.random.default_rng(0)
    losses = []
    for step in range(6):
        # What the ranks do in this step: their samples, and their way through the layers.
        parts = []
        for part in range({ranks}):
            rows = int(data.integers(1, 6))
            x, y = data.normal(size=(rows, 4)).astype(np.float32), data.integers(0, 2, rows)
            parts.append((x, y, [int(i) for i in data.permutation(3)[: data.integers(0, 4)]]))
        def loss_of(x, y, way):
            h = sl.tensor(x)
            for i in way: h = layers[i](h).relu() if h.sum().item() > 0 else layers[i](h).tanh()
            return sl.cross_entropy(head(h), y)
        mine = parts if size == 1 else [parts[rank]]
        rows = sum(len(x) for x, _, _ in mine)
        loss = sum(loss_of(*part) * (len(part[0]) / rows) for part in mine)
        if REDUCES:
            with reducer.step(samples=rows): loss.backward()
        else:
            loss.backward()
        assert unused.parameters()[0].grad is None
        optimizer.step()
        losses.append(loss.item())
    weights = [p.numpy().ravel().tolist() for p in parameters]
    told = [rank, size, weights, reducer.left_early if REDUCES else 0]
    pathlib.Path(sys.argv[1], f"rank{{rank}}").write_text(json.dumps(told))
"""


def weights(command, tmp_path, ranks, reduces=True):
    return [told[2] for told in told_by_ranks(command, tmp_path, PROGRAM.format(reduces=reduces, ranks=ranks))]


def flat(nested):
    return np.concatenate([np.asarray(part) for part in nested])


def command_of(starter, ranks):
    if starter == "launch":
        if not starling_program():
            pytest.skip("STARLING_PROGRAM does not name the program `starling`")
        return [starling_program(), "launch", "-n", str(ranks), "--"]
    if shutil.which("mpirun") is None:
        pytest.skip("mpirun is not installed")
    return ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks)]


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("starter", ["launch", "mpirun"])
def test_ranks_step_as_one_process_with_all_samples(starter, ranks, tmp_path):
    command = command_of(starter, ranks)
    (alone,) = weights([], tmp_path, ranks)
    first, *others = weights(command, tmp_path, ranks)
    assert len(others) == ranks - 1 and all(other == first for other in others)  # to the bit
    np.testing.assert_allclose(flat(first), flat(alone), rtol=1e-4, atol=1e-6)


def test_without_exchange_the_law_does_not_hold(tmp_path):
    (alone,) = weights([], tmp_path, 2)
    first, second = weights(command_of("launch", 2), tmp_path, 2, reduces=False)
    assert first != second
    assert np.abs(flat(first) - flat(alone)).max() > 1e-3


FAILS = """
    import sys, starling as sl
    sl.dist.init()
    w = sl.tensor([1.0, 2.0], requires_grad=True); w.name = "w"
    reducer = sl.dist.GradientReducer([w])
    try:
        with reducer.step(samples=1):
            if sl.dist.rank() == 1: raise ValueError("no gradient from rank one")
            (w * w).sum().backward()
    except ValueError as error:
        print("raised:", error, flush=True); sys.exit(0)
    except sl.Error as error:
        print("told:", error, flush=True); sys.exit(0)
    sys.exit(9)
"""


def test_an_error_inside_a_step_reaches_the_other_ranks(tmp_path):
    if not starling_program():
        pytest.skip("STARLING_PROGRAM does not name the program `starling`")
    done = run_script(FAILS, tmp_path, seconds=60, command=[starling_program(), "launch", "-n", "2", "--"])
    output = done.stdout + done.stderr
    assert "raised: no gradient from rank one" in output and "told: " in output, output


@pytest.mark.parametrize("sent", [False, True])
def test_a_reducer_that_goes_in_the_midst_of_a_step_lets_the_others_know(sent):
    import starling as sl

    def rank():
        w = sl.tensor([1.0, 2.0], requires_grad=True)
        reducer = sl.dist.GradientReducer([w])
        if sl.dist.rank() == 0:
            reducer.begin(samples=1)
            if sent:
                (w * w).sum().backward()
            del reducer  # its exchanges are waited for without the GIL, which the other rank needs
            return "gone"
        try:
            for _ in range(2):  # an exchange that both have sent may still end
                with reducer.step(samples=1):
                    (w * w).sum().backward()
        except sl.Error as error:
            return str(error)
        return "averaged with a rank that has gone"

    gone, told = sl.dist.spawn(rank, 2)
    assert gone == "gone" and "given up between begin() and finish()" in told, told


def test_steps_are_checked():
    import starling as sl

    w = sl.tensor([1.0, 2.0], requires_grad=True)
    reducer = sl.dist.GradientReducer([w])
    with reducer.step(samples=4):
        (w * w).sum().backward()
    assert w.grad.tolist() == [2.0, 4.0] and reducer.buckets == 1 and reducer.left_early == 1
    with pytest.raises(sl.Error, match="begin"):
        reducer.finish()
    with pytest.raises(sl.Error, match="at least 0"):
        reducer.begin(-1)
    with pytest.raises(sl.Error, match="require gradients"):
        sl.dist.GradientReducer([sl.ones(2)])
