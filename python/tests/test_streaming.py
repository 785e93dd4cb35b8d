"""Trainers over data that Python makes while they run: iterables, and Loaders with transform, processes or collate_fn."""

import itertools
import os
import threading

import numpy as np
import pytest

import starling as sl
from ranks import starling_program, told_by_ranks

GENERATOR = np.random.default_rng(0)
Y = GENERATOR.integers(0, 3, 50)
X = (GENERATOR.normal(size=(50, 4)) + 2 * Y[:, None]).astype(np.float32)


class Stream:
    """An iterable of samples without a length, which counts how far it was read."""

    def __init__(self, n=50):
        self.n, self.read, self.epochs = n, 0, 0

    def __iter__(self):
        self.epochs += 1
        for i in range(self.n):
            self.read += 1
            yield X[i % 50], int(Y[i % 50])


class Samples:
    def __len__(self):
        return len(X)

    def __getitem__(self, i):
        return X[i], int(Y[i])


def trained(data, test=None, **options):
    sl.manual_seed(1)
    net = sl.nn.Linear(4, 3)
    trainer = sl.train.Trainer(net, sl.optim.SGD(net.parameters(), lr=0.1), batch=8, quiet=True, **{"epochs": 3, **options})
    summary = trainer.fit(data, test)
    return summary, net.state_dict()["weight"].numpy().tobytes()


def in_order(**more):
    return sl.data.Loader((X, Y), batch=8, shuffle=False, **more)


def test_an_iterable_is_trained_on_in_its_order_without_being_held():
    stream = Stream()
    summary, weights = trained(stream, (X, Y))
    assert summary["steps"] == 21 and 3 <= stream.epochs <= 4 and stream.read <= 150 + 8 * 16  # a fourth epoch was begun ahead
    assert summary["metrics"]["accuracy"] > 0.5
    assert weights == trained(in_order())[1]


def test_only_a_few_batches_are_read_ahead():
    """An endless iterable trains: what is read is what the steps took, and some batches ahead of them."""
    stream = Stream(10**9)
    summary, _ = trained(stream, epochs=1, steps=20)
    assert summary["steps"] == 20 and 160 <= stream.read <= 160 + 8 * 16
    assert threading.active_count() < 20


LOADERS = {
    "transform": lambda: sl.data.Loader(Samples(), batch=8, shuffle=False, transform=lambda s: (s[0] * 1, s[1]), workers=2),
    "processes": lambda: sl.data.Loader(Samples(), batch=8, shuffle=False, workers=2, processes=True),
    "collate_fn": lambda: sl.data.Loader(Samples(), batch=8, shuffle=False, collate_fn=lambda rows: (np.stack([x for x, _ in rows]), np.array([y for _, y in rows]))),
    "dicts": lambda: sl.data.Loader([{"x": x, "y": int(y)} for x, y in zip(X, Y)], batch=8, shuffle=False),
    "iterable": lambda: sl.data.Loader(Stream(), batch=8),
}  # fmt: skip


@pytest.mark.parametrize("kind", LOADERS)
def test_a_loader_of_python_code_trains_to_the_bits_of_a_plain_one(kind):
    summary, weights = trained(LOADERS[kind]())
    assert summary["steps"] == 21
    assert weights == trained(in_order())[1]


def test_batches_of_a_trainer_are_those_of_the_loader_shuffled_too():
    seen = []

    def noted(rows):
        seen.append([int(i) for i in rows])
        return np.stack([X[i] for i in rows]), np.array([Y[i] for i in rows])

    make = lambda: sl.data.Loader(list(range(50)), batch=8, seed=4, collate_fn=noted)
    trained(make(), epochs=2)
    by_trainer, seen[:] = list(seen), []
    loader = make()
    list(loader), list(loader)
    assert by_trainer[: len(seen)] == seen and seen[:7] != seen[7:14]
    assert len(by_trainer) - len(seen) <= 8  # of an epoch begun ahead


def test_test_data_may_be_a_loader_with_a_transform():
    wrong = sl.data.Loader(Samples(), batch=8, transform=lambda s: (s[0], (s[1] + 1) % 3))
    right, _ = trained((X, Y), sl.data.Loader(Samples(), batch=8, transform=lambda s: s))
    assert right["metrics"] == trained((X, Y), (X, Y))[0]["metrics"] and right["metrics"]["accuracy"] > 0.5
    assert trained((X, Y), wrong)[0]["metrics"]["accuracy"] < 0.4


def test_an_iterator_that_can_be_read_once_trains_one_epoch():
    once = lambda: ((X[i], int(Y[i])) for i in range(50))
    assert trained(once(), epochs=1)[0]["steps"] == 7
    with pytest.raises(ValueError, match="read again, got none from generator"):
        trained(once(), epochs=2)


def test_errors_come_out_as_they_are():
    def broken():
        yield from itertools.islice(Stream(), 20)
        raise KeyError("sample twenty")

    with pytest.raises(KeyError, match="sample twenty"):
        trained(broken())
    uneven = [(X[0], 0)] * 8 + [(X[0, :3], 0)] * 8
    with pytest.raises(sl.Error, match=r"f32\[4\].*f32\[8, 3\]"):
        trained(iter(uneven))
    with pytest.raises(sl.Error, match="at most 8 samples, got 16"):
        trained(sl.data.Loader(Samples(), batch=8, collate_fn=lambda rows: (np.zeros((16, 4), np.float32), np.zeros(16, np.int64))))
    assert trained(Stream())[0]["steps"] == 21  # all of it still works


def test_a_run_over_an_iterable_goes_on_at_its_sample(tmp_path):
    class Stop:
        def step(self, run):
            if run.step == 10:
                run.stop()

    whole = trained(Stream())[1]
    trained(Stream(), folder=tmp_path, callbacks=[Stop()])
    summary, weights = trained(Stream(), folder=tmp_path, resume=True)
    assert summary["steps"] == 21 and weights == whole


def test_a_schedule_that_needs_the_length_takes_it_from_the_iterable():
    class Sized(Stream):
        def __len__(self):
            return self.n

    want = trained(in_order(), schedule="cosine")[1]
    assert trained(Sized(), schedule="cosine")[1] == want != trained(Sized())[1]
    assert trained(LOADERS["transform"](), schedule="cosine")[1] == want


RANKS = """
    import json, pathlib, sys
    sys.path.insert(0, {tests!r})
    import starling as sl
    sl.dist.init()
    from test_streaming import Stream, Samples, trained
    rank, size = sl.dist.rank(), sl.dist.size()
    strategy = lambda: sl.dist.allreduce(deterministic=True)
    told = [trained(Stream(), strategy=strategy())[1].hex()]
    pathlib.Path(sys.argv[1], f"rank{{rank}}").write_text(json.dumps([rank, size, told]))
"""


def test_ranks_share_the_batches_of_an_iterable(tmp_path):
    if not starling_program():
        pytest.skip("STARLING_PROGRAM does not name the program `starling`")
    program = RANKS.format(tests=os.path.dirname(os.path.abspath(__file__)))
    ((_, _, alone),) = told_by_ranks([], tmp_path, program)
    for _, size, told in told_by_ranks([starling_program(), "launch", "-n", "2", "--"], tmp_path, program):
        assert size == 2 and told == alone
