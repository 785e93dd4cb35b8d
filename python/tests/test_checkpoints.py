"""A loop of one's own that goes on from a checkpoint, to the bits of one that was never left; random numbers and loaders that go on."""

import json
import pathlib

import numpy as np
import pytest

import starling as sl
from checkpointed_loop import CheckpointedLoop
from ranks import run_script

GENERATOR = np.random.default_rng(0)
X, Y = GENERATOR.normal(size=(30, 6)).astype(np.float32), GENERATOR.integers(0, 3, 30)


class Samples:
    def __len__(self):
        return len(X)

    def __getitem__(self, i):
        return X[i], int(Y[i])


class Stream:
    def __iter__(self):
        return iter([(X[i], int(Y[i])) for i in range(len(X))])


LOADERS = {
    "arrays": lambda: sl.data.Loader((X, Y), batch=4, seed=3),
    "objects": lambda: sl.data.Loader(Samples(), batch=4, seed=3, workers=2),
    "transform": lambda: sl.data.Loader(Samples(), batch=4, seed=3, workers=2, transform=lambda s: (s[0] * 2, s[1])),
    "processes": lambda: sl.data.Loader(Samples(), batch=4, seed=3, workers=2, processes=True),
    "iterable": lambda: sl.data.Loader(Stream(), batch=4, workers=2),
    "dropped": lambda: sl.data.Loader(Samples(), batch=4, drop_last=True, transform=lambda s: s),
}


class Loop(CheckpointedLoop):
    """Dropout, momentum, a schedule, shuffled data and random numbers between the steps: all that a step depends on."""

    def __init__(self, loader, folder):
        sl.manual_seed(7)
        net = sl.nn.Sequential(sl.nn.Linear(6, 16), sl.nn.Dropout(0.3), sl.nn.Tanh(), sl.nn.Linear(16, 3))
        super().__init__(net, sl.optim.Adam(net.parameters(), lr=0.02), loader)
        self.schedule = sl.schedules.Cosine(self.optimizer, steps=40)
        self.kept = sl.train.Checkpoints(folder, net=net, optimizer=self.optimizer, schedule=self.schedule, loader=loader)

    def noise(self, shape):
        return sl.normal(shape) * 0.1  # by the random numbers of this thread

    def after_step(self):
        self.schedule.step()
        sl.uniform((2,))  # drawn after the step: counted, too

    def save(self):
        self.kept.save(self.step, more={"losses": list(self.losses.values())})

    def weights(self):
        return b"".join(tensor.numpy().tobytes() for tensor in self.net.state_dict().values())


@pytest.mark.parametrize("kind", LOADERS)
def test_a_loop_goes_on_to_the_same_bits(kind, tmp_path):
    whole = Loop(LOADERS[kind](), tmp_path / "whole").run(3)
    steps = len(whole.losses)
    assert steps == (21 if kind == "dropped" else 24)
    for stop in (1, 11, steps // 3):  # in the midst of an epoch, and after the last batch of one
        folder = tmp_path / str(stop)
        before = Loop(LOADERS[kind](), folder).run(3, stop)
        sl.normal((5,))  # whatever happens meanwhile
        after = Loop(LOADERS[kind](), folder)
        after.step = after.kept.load()
        assert after.step == stop and after.kept.more["losses"] == list(before.losses.values())
        after.run(3)
        assert {**before.losses, **after.losses} == whole.losses, stop
        assert after.weights() == whole.weights() and after.optimizer.lr == whole.optimizer.lr
    forgot = Loop(LOADERS[kind](), tmp_path / "11")  # the control: with other random numbers the law does not hold
    forgot.step = forgot.kept.load()
    sl.manual_seed(8)
    assert forgot.run(3).weights() != whole.weights()


RESUMED = """
    import sys
    sys.path.insert(0, {tests!r})
    from test_checkpoints import LOADERS, Loop
    loop = Loop(LOADERS["objects"](), sys.argv[1])
    loop.step = loop.kept.load() or 0
    print(loop.run(2, {stop}).weights().hex(), flush=True)
"""


def test_another_process_goes_on_to_the_same_bits(tmp_path):
    tests = str(pathlib.Path(__file__).parent)
    whole = Loop(LOADERS["objects"](), tmp_path / "whole").run(2).weights().hex()
    for stop in (5, 0):
        done = run_script(RESUMED.format(tests=tests, stop=stop), tmp_path, arguments=[str(tmp_path / "run")])
        assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == whole


def test_the_newest_intact_checkpoint_is_loaded_and_old_ones_go(tmp_path):
    net = sl.nn.Linear(2, 2)
    kept = sl.train.Checkpoints(tmp_path, keep=3, net=net)
    assert kept.load() is None and kept.steps == []
    for step in range(1, 6):
        net.weight.assign(sl.full((2, 2), float(step)))
        path = pathlib.Path(kept.save(step))
        assert path.is_dir()
    assert kept.steps == [3, 4, 5]
    (weights,) = path.glob("*.safetensors")
    damaged = bytearray(weights.read_bytes())
    damaged[-1] ^= 1
    weights.write_bytes(damaged)
    with pytest.warns(UserWarning, match="damaged"):
        assert kept.load() == 4
    assert net.weight.tolist() == [[4, 4], [4, 4]]
    assert kept.load(3) == 3 and net.weight.tolist() == [[3, 3], [3, 3]]
    with pytest.raises(sl.Error):
        kept.load(99)


def test_parts_may_be_of_ones_own_and_must_agree(tmp_path):
    class Mean:
        def __init__(self):
            self.values, self.tensor, self.array = [], sl.zeros(2), np.zeros(3)

        def state_dict(self):
            return {"values": self.values, "nested": [{"tensor": self.tensor}, None, "text", True], "array": self.array}

        def load_state_dict(self, state):
            self.values, self.tensor = state["values"], state["nested"][0]["tensor"]
            assert state["nested"][1:] == [None, "text", True]
            self.array = state["array"].numpy()

    mean = Mean()
    mean.values, mean.tensor, mean.array = [1, 2.5], sl.tensor([3.0, 4.0]), np.arange(3.0)
    sl.train.Checkpoints(tmp_path, mean=mean).save(1)
    other = Mean()
    assert sl.train.Checkpoints(tmp_path, mean=other).load() == 1
    assert other.values == [1, 2.5] and other.tensor.tolist() == [3, 4] and other.array.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match=r"expected the parts \['net'\], got a checkpoint of \['mean'\]"):
        sl.train.Checkpoints(tmp_path, net=sl.nn.Linear(2, 2)).load()
    with pytest.raises(TypeError, match="state_dict.*of thing, got int"):
        sl.train.Checkpoints(tmp_path, thing=5)
    mean.values = [object()]
    with pytest.raises(TypeError, match="mean/values/0, got object"):
        sl.train.Checkpoints(tmp_path, mean=mean).save(2)
    assert sl.train.Checkpoints(tmp_path, mean=mean).steps == [1]


def test_checkpoints_of_a_trainer_are_told_apart(tmp_path):
    net = sl.nn.Linear(6, 3)
    sl.train.Trainer(net, sl.optim.SGD(net.parameters(), lr=0.1), folder=tmp_path, quiet=True).fit((X, Y))
    folder = next(path.parent for path in tmp_path.rglob("step-*"))
    with pytest.raises(sl.Error, match="got one of a trainer"):
        sl.train.Checkpoints(folder, net=net).load()


def test_random_numbers_go_on_where_they_were():
    sl.manual_seed(3)
    sl.normal((4,))
    state = json.loads(json.dumps(sl.random_state()))  # numbers alone
    program = sl.compile(lambda: sl.normal((3,)) + sl.dropout(sl.ones(3), 0.5))
    first = [sl.normal((4,)).tolist(), program().tolist(), sl.randint(0, 100, (5,)).tolist(), sl.permutation(6).tolist()]
    sl.manual_seed(99)
    sl.set_random_state(state)
    assert [sl.normal((4,)).tolist(), program().tolist(), sl.randint(0, 100, (5,)).tolist(), sl.permutation(6).tolist()] == first
    assert sl.get_rng_state()["seed"] == 3
    sl.set_rng_state({"seed": 3, "step": 0, "calls": {}})
    sl.normal((4,))
    assert sl.normal((4,)).tolist() == first[0]
    with pytest.raises(sl.Error, match="seed, step and calls"):
        sl.set_random_state({"seed": 1})


@pytest.mark.parametrize("kind", LOADERS)
def test_loaders_go_on_at_the_exact_sample(kind):
    def rows(batches):
        return [y.tolist() for _, y in batches]

    def epochs(loader, count):
        return [rows(loader) for _ in range(count)]

    whole = epochs(LOADERS[kind](), 3)
    for taken in range(len(whole[1]) + 1):
        first = LOADERS[kind]()
        before = [rows(first)]
        epoch = iter(first)
        before.append(rows(next(epoch) for _ in range(taken)))
        state = json.loads(json.dumps(first.state_dict()))
        assert state["epoch"] == 1 or taken == 0
        epoch.close()
        second = LOADERS[kind]()
        second.load_state_dict(state)
        after = epochs(second, 2 if state["epoch"] == 1 else 3)
        assert [before[0], before[1] + after[0], after[1]] == whole, taken
    with pytest.raises(ValueError, match="seed=3, got seed=4|seed=0, got seed=4"):
        first.load_state_dict({**state, "seed": 4})
    left = LOADERS[kind]()
    next(iter(left))
    assert rows(left) == whole[1]  # a loop that was left goes on with the next epoch
