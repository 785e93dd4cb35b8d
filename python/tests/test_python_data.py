"""Loaders over Python's own data: iterables, transforms, worker processes."""

import os
import threading
import time

import numpy as np
import pytest

import starling as sl
from ranks import run_script


class Squares:
    """A data set whose samples say which process made them."""

    def __len__(self):
        return 37

    def __getitem__(self, i):
        return np.full(3, i * i, np.float32), i, os.getpid()


class Numbers:
    """An iterable that can be read again."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return ((np.full(2, i, np.float32), i) for i in range(self.n))


def rows(loader):
    return [(x.tolist(), y.tolist()) for x, y, *_ in loader]


def test_an_iterable_is_read_from_its_beginning_every_epoch_in_its_order():
    loader = sl.data.Loader(Numbers(10), batch=4)
    want = [([[0.0] * 2, [1.0] * 2, [2.0] * 2, [3.0] * 2], [0, 1, 2, 3]), ([[4.0] * 2, [5.0] * 2, [6.0] * 2, [7.0] * 2], [4, 5, 6, 7])]
    want.append(([[8.0] * 2, [9.0] * 2], [8, 9]))
    assert rows(loader) == want and rows(loader) == want
    assert rows(sl.data.Loader(Numbers(10), batch=4, drop_last=True)) == want[:2]
    x, y = next(iter(loader))
    assert x.dtype == sl.f32 and y.dtype == sl.i64
    (batch,) = sl.data.Loader((float(i) for i in range(3)), batch=3)
    assert batch.dtype == sl.f32 and batch.tolist() == [0, 1, 2]
    with pytest.raises(TypeError, match="iterable"):
        len(loader)


def test_a_generator_that_is_used_up_is_told():
    loader = sl.data.Loader(iter(list(Numbers(4))), batch=2)
    assert len(list(loader)) == 2
    with pytest.raises(ValueError, match="read again"):
        list(loader)


@pytest.mark.parametrize("processes", [False, True])
@pytest.mark.parametrize("workers", [1, 3])
def test_batches_do_not_depend_on_workers(workers, processes):
    plain = sl.data.Loader(Squares(), batch=8, seed=3)
    made = sl.data.Loader(Squares(), batch=8, seed=3, workers=workers, processes=processes)
    for _ in range(2):  # epochs are shuffled anew
        assert rows(plain) == rows(made)
    pids = {pid for _, _, column in made for pid in column.tolist()}
    assert (os.getpid() not in pids and len(pids) <= workers) if processes else pids == {os.getpid()}
    assert len(made) == 5


def test_transforms_run_on_every_sample():
    loader = sl.data.Loader(Numbers(5), batch=5, workers=2, transform=lambda s: (s[0] + 1, s[1]))
    ((x, y),) = loader
    assert x[:, 0].tolist() == [1, 2, 3, 4, 5] and y.tolist() == [0, 1, 2, 3, 4]
    loader = sl.data.Loader(Squares(), batch=37, shuffle=False, transform=lambda s: s[1] * 2)
    assert next(iter(loader)).tolist() == [2 * i for i in range(37)]


def test_ranks_share_a_batch():
    parts = [rows(sl.data.Loader(Numbers(10), batch=5, rank=r, ranks=2)) for r in range(2)]
    assert [a[1] + b[1] for a, b in zip(*parts)] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    halves = [rows(sl.data.Loader(Squares(), batch=8, rank=r, ranks=2, transform=lambda s: s)) for r in range(2)]
    whole = rows(sl.data.Loader(Squares(), batch=8))
    assert [a[1] + b[1] for a, b in zip(*halves)] == [y for _, y in whole]


def broken(n):
    yield from Numbers(5)
    raise KeyError("sample five")


class Broken(Squares):
    def __getitem__(self, i):
        if i == 5:
            raise KeyError("sample five")
        return super().__getitem__(i)


@pytest.mark.parametrize("source", [lambda: broken(0), Broken], ids=["iterable", "data set"])
@pytest.mark.parametrize("processes", [False, True])
def test_errors_come_out_in_their_place(source, processes):
    loader = sl.data.Loader(source(), batch=2, shuffle=False, processes=processes)
    got = []
    with pytest.raises((KeyError, sl.Error), match="sample five"):  # threads of the library hand errors on as text
        for batch in loader:
            got.append(batch)
    assert len(got) == 2


@pytest.mark.parametrize("processes", [False, True])
def test_a_loop_that_is_left_ends_its_workers(processes):
    def endless():
        i = 0
        while True:
            yield np.float32(i)
            i += 1

    before = threading.active_count()
    for batch in sl.data.Loader(endless(), batch=3, workers=2, processes=processes):
        assert batch.tolist() == [0, 1, 2]
        break
    deadline = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert threading.active_count() <= before


class Dies(Squares):
    def __getitem__(self, i):
        if i == 5:
            os._exit(3)
        return super().__getitem__(i)


def test_a_worker_process_that_dies_is_told():
    with pytest.raises(sl.Error, match="worker process .* code 3"):
        list(sl.data.Loader(Dies(), batch=2, shuffle=False, workers=2, processes=True))


FORKED = """
    import gc, os, signal, numpy as np, starling as sl
    class Data:
        def __len__(self): return 100
        def __getitem__(self, i): return np.float32(i)
    loader = sl.data.Loader(Data(), batch=4)
    batch = next(iter(loader))
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        try:
            next(iter(loader))
        except sl.Error as error:
            assert "forked" in str(error), error
        del loader
        gc.collect()
        os._exit(0)
    print(os.waitpid(child, 0)[1], len(list(loader)), flush=True)
"""


def test_a_forked_process_lets_go_of_its_parents_loaders(tmp_path):
    done = run_script(FORKED, tmp_path, seconds=60)
    assert done.stdout.split() == ["0", "25"], done.stdout + done.stderr


def test_mistakes_are_told():
    uneven = [np.ones(2, np.float32), np.ones(3, np.float32)]
    with pytest.raises(ValueError, match=r"float32\[2\].*float32\[3\]"):
        list(sl.data.Loader(iter(uneven), batch=2))
    for ask, text in (
        (lambda: sl.data.Loader(Numbers(3), batch=0), "at least one sample"),
        (lambda: sl.data.Loader(Numbers(3), batch=2, workers=0), "worker"),
        (lambda: sl.data.Loader(Numbers(3), batch=2, shuffle=True), "order is its own"),
        (lambda: sl.data.Loader(Numbers(3), batch=2, rank=2, ranks=2), "rank below 2"),
        (lambda: sl.data.Loader("synthetic", batch=2, processes=True), "__getitem__"),
    ):
        with pytest.raises(ValueError, match=text):
            ask()
    with pytest.raises(TypeError):
        sl.data.Loader(5, batch=2)
