"""A loop of several ranks that goes on from a checkpoint to the bits of one that was never left, whatever its ranks store."""

import pathlib

import numpy as np
import pytest

import starling as sl
from checkpointed_loop import CheckpointedLoop
from ranks import run_script, starling_program

GENERATOR = np.random.default_rng(0)
X, Y = GENERATOR.normal(size=(48, 6)).astype(np.float32), GENERATOR.integers(0, 3, 48)
LAYOUT = {"fc1": {"model": "columns"}, "fc2": {"model": "rows"}}
STRATEGIES = {
    "plain": {},
    "zero": {"zero": 1},
    "weights in pieces": {"zero": 3},
    "layout": {"mesh": {"data": 1, "model": 2}, "layout": LAYOUT},
    "codec": {"codec": "one_bit"},
}


class Net(sl.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.drop, self.fc2 = sl.nn.Linear(6, 8), sl.nn.Dropout(0.2), sl.nn.Linear(8, 3)

    def forward(self, x):
        return self.fc2(self.drop(self.fc1(x).relu()))


class Loop(CheckpointedLoop):
    """A compiled loop whose ranks have rows and random numbers of their own."""

    def __init__(self, folder, options):
        sl.manual_seed(7)
        net = Net()
        optimizer = sl.optim.Adam(net.parameters(), lr=0.02)
        strategy = sl.dist.allreduce(**options).begin(net, optimizer)
        loader = sl.data.Loader((X, Y), batch=16, seed=3, rank=strategy.data_rank, ranks=strategy.data_ranks)
        self.kept = sl.train.Checkpoints(folder, keep=9, strategy=strategy, net=net, optimizer=optimizer, loader=loader)
        super().__init__(net, optimizer, loader, strategy)
        self.mine = strategy.data_rank  # ranks that share rows add the same noise

    def noise(self, shape):
        # `calls` goes on with each step, by the rank's own seed: numbers that must be kept for each.
        return sl.normal(shape).numpy() * 0.1

    def save(self):
        self.kept.save(self.step, more={"rank": sl.dist.rank()})

    def run(self, epochs, stop=None):
        """From where the newest checkpoint is; returns the losses by their steps."""
        found = self.kept.load()
        if found is None:
            sl.set_random_state({**sl.random_state(), "seed": 100 + self.mine})
        self.step = found or 0
        super().run(epochs, stop)
        if self.step != stop:
            self.kept.save(self.step)
        return self.losses


def rank_of_loop(folder, options, epochs, stop=None):
    return Loop(folder, options).run(epochs, stop)


def saved(folder, step):
    """What lies in a checkpoint, whole, as bytes."""
    (file,) = (pathlib.Path(folder) / f"step-{step:08}").glob("*.safetensors")
    return {name: tensor.numpy().tobytes() for name, tensor in sl.load(file).items()}


@pytest.mark.parametrize("kind", STRATEGIES)
def test_ranks_go_on_to_the_same_bits(kind, tmp_path):
    options = STRATEGIES[kind]
    whole = sl.dist.spawn(rank_of_loop, 2, tmp_path / "whole", options, 3)
    assert len(whole[0]) == 9
    for stop in (1, 5):  # in the midst of epochs
        folder = tmp_path / str(stop)
        before = sl.dist.spawn(rank_of_loop, 2, folder, options, 3, stop)
        after = sl.dist.spawn(rank_of_loop, 2, folder, options, 3)
        assert [{**a, **b} for a, b in zip(before, after)] == whole, (kind, stop)
        assert saved(folder, 9) == saved(tmp_path / "whole", 9), (kind, stop)
    names = set(saved(tmp_path / "5", 5))
    assert {"net/fc1.weight", "net/fc2.bias"} <= names  # written once, put together from pieces
    assert any(name.startswith("rank.1.strategy/") for name in names) == (kind == "codec")


def test_pieces_go_on_whole_and_in_other_pieces(tmp_path):
    """Weights of ranks that were cut one way are what one process, or ranks that cut them otherwise, go on with."""

    def rank(options, folder, copy=None):
        loop = Loop(folder, options)
        loop.mine = 0  # nothing differs among ranks: any number of them may go on
        if copy is None:
            for x, y in loop.loader:
                loop.program(x, y)
            sl.set_random_state({"seed": 1, "step": 3, "calls": {}})
            loop.kept.save(3)
        else:
            assert loop.kept.load() == 3 and loop.loader.epoch == 1 and sl.random_state()["seed"] == 1
            sl.train.Checkpoints(copy, strategy=loop.kept._strategy, net=loop.net, optimizer=loop.optimizer, loader=loop.loader).save(3)

    sl.dist.spawn(rank, 2, {"zero": 3}, tmp_path / "run")
    want = saved(tmp_path / "run", 3)
    for number, (ranks, options) in enumerate([(4, {"zero": 1}), (2, STRATEGIES["layout"]), (1, {}), (1, {"zero": 3})]):
        sl.dist.spawn(rank, ranks, options, tmp_path / "run", tmp_path / f"copy{number}")
        assert saved(tmp_path / f"copy{number}", 3) == want, (ranks, options)
    net = Net()  # and without any rank
    optimizer = sl.optim.Adam(net.parameters(), lr=0.02)
    loader = sl.data.Loader((X, Y), batch=16, seed=3)
    assert sl.train.Checkpoints(tmp_path / "run", net=net, optimizer=optimizer, loader=loader).load() == 3
    assert net.fc1.weight.detach().numpy().tobytes() == want["net/fc1.weight"] and loader.epoch == 1


def test_what_differs_among_ranks_is_kept_of_each(tmp_path):
    """Running statistics of eager ranks are their own; so is what objects of the program's hold."""

    class Mean:
        def __init__(self):
            self.value = sl.zeros(2)

        def state_dict(self):
            return {"value": self.value, "rank": sl.dist.rank()}

        def load_state_dict(self, state):
            assert state["rank"] == sl.dist.rank()
            self.value = state["value"]

    def rank(save):
        sl.manual_seed(1)
        net, mean = sl.nn.Sequential(sl.nn.Linear(2, 2), sl.nn.BatchNorm1d(2)), Mean()
        kept = sl.train.Checkpoints(tmp_path, net=net, mean=mean)
        if save:
            sl.manual_seed(50 + sl.dist.rank())
            net(sl.normal((8, 2)))
            mean.value = sl.full((2,), 3.0 + sl.dist.rank())
            kept.save(1, more=["of", sl.dist.rank()])
        else:
            assert kept.load() == 1 and kept.more == ["of", sl.dist.rank()]
        return [tensor.tolist() for tensor in net.state_dict().values()], mean.value.tolist(), sl.normal((2,)).tolist()

    written = sl.dist.spawn(rank, 2, True)
    assert written[0][0][0] == written[1][0][0] and written[0] != written[1]
    assert sl.dist.spawn(rank, 2, False) == written
    assert sorted(name for name in saved(tmp_path, 1) if "Linear" in name or "0.weight" in name) == ["net/0.weight"]
    for ranks in (1, 3):
        with pytest.raises(sl.Error, match=f"expected 2 ranks, as many as saved this checkpoint.*got {ranks}"):
            sl.dist.spawn(rank, ranks, False)
    with pytest.raises(sl.Error, match="expected 2 ranks.*got 1"):
        sl.train.Checkpoints(tmp_path, net=sl.nn.Linear(2, 2), mean=Mean()).load()


def told_by(ranks, act):
    """What the act raised on each rank."""

    def rank():
        try:
            act()
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return ""

    return sl.dist.spawn(rank, ranks)


class Fails:
    """A part of which one rank cannot tell its state, or take it."""

    def __init__(self, when):
        self.when = when

    def act(self, when):
        if when == self.when and sl.dist.rank() == 1:
            raise LookupError("nothing here")
        return {}

    def state_dict(self):
        return self.act("save")

    def load_state_dict(self, state):
        self.act("load")


def test_what_one_rank_cannot_do_all_are_told(tmp_path):
    for when in ("save", "load"):
        folder = tmp_path / when

        def act(folder=folder, when=when):
            kept = sl.train.Checkpoints(folder, part=Fails(when))
            kept.save(1)
            kept.load()

        first, second = told_by(2, act)
        assert "rank 1: LookupError: nothing here" in first and first.startswith("Error") and second == "LookupError: nothing here"
        assert sl.train.Checkpoints(folder, part=Fails("")).steps == ([] if when == "save" else [1])

    def apart():
        sl.train.Checkpoints(tmp_path / str(sl.dist.rank())).save(1)

    assert all("expected the same folder on all ranks" in told for told in told_by(2, apart))
    assert all("expected the same step on all ranks, got 0 on rank 0 and 1 on rank 1" in told
               for told in told_by(2, lambda: sl.train.Checkpoints(tmp_path / "steps").save(sl.dist.rank())))  # fmt: skip
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    for told in told_by(2, lambda: sl.train.Checkpoints(blocked, net=sl.nn.Linear(2, 2)).save(1)):
        assert told.startswith("Error") and "file" in told  # rank 0 alone writes
    infinite = sl.nn.Linear(2, 2)
    infinite.weight.assign(sl.full((2, 2), float("inf")))
    assert all("weight" in told for told in told_by(2, lambda: sl.train.Checkpoints(tmp_path / "inf", net=infinite).save(1)))
    assert all("step" in told for told in told_by(2, lambda: sl.train.Checkpoints(tmp_path / "load").load(77)))
    assert told_by(2, lambda: sl.train.Checkpoints(tmp_path / "none").load()) == ["", ""]


def test_pieces_without_their_strategy_are_refused_by_name(tmp_path):
    def act():
        loop = Loop(tmp_path, {"zero": 3})
        sl.train.Checkpoints(tmp_path, net=loop.net).save(1)

    for told in told_by(2, act):
        assert "expected the strategy whose ranks store pieces of 'net/fc1.weight': Checkpoints(..., strategy=strategy)" in told


PROCESS = """
    import os, pathlib, signal, sys
    sys.path.insert(0, {tests!r})
    import starling as sl
    from test_rank_checkpoints import Loop
    sl.dist.init()
    loop = Loop(sys.argv[1], {{"zero": 3}})
    losses = loop.run(3, {stop})
    pathlib.Path(sys.argv[2], f"{{sl.dist.rank()}}-{stop}").write_text(repr(losses))
    if {stop} and sl.dist.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    sl.dist.all_reduce(sl.ones(1))
"""


def test_processes_that_were_killed_go_on_to_the_bits_of_threads(tmp_path):
    if not starling_program():
        pytest.skip("STARLING_PROGRAM does not name the program `starling`")
    whole = sl.dist.spawn(rank_of_loop, 2, tmp_path / "whole", {"zero": 3}, 3)
    (tmp_path / "told").mkdir()
    tests = str(pathlib.Path(__file__).parent)
    for stop in (4, 0):
        program = PROCESS.format(tests=tests, stop=stop)
        done = run_script(program, tmp_path, command=[starling_program(), "launch", "-n", "2", "--"], arguments=[str(tmp_path / "run"), str(tmp_path / "told")])
        assert (done.returncode == 0) == (stop == 0), done.stdout + done.stderr
    for rank in (0, 1):
        losses = {}
        for stop in (4, 0):
            losses.update(eval((tmp_path / f"told/{rank}-{stop}").read_text()))
        assert losses == whole[rank]
    assert saved(tmp_path / "run", 9) == saved(tmp_path / "whole", 9)
