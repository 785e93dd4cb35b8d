"""Loaders over Python's own data: iterables, transforms, worker processes."""

import os
import sys
import threading
import time

import numpy as np
import pytest

import starling as sl
from starling import _pipeline
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


def test_fields_are_stacked_as_numpy_stacks_them():
    generator = np.random.default_rng(0)
    columns = {
        "arrays": [generator.normal(size=(2, 3)) for _ in range(5)], "views": list(generator.normal(size=(5, 3, 2)).astype("f4").transpose(0, 2, 1)),
        "scalars": [np.float32(i) for i in range(5)], "of no axes": [np.array(i, "i2") for i in range(5)], "lists": [[i, 1] for i in range(5)],
        "empty": [np.zeros((0, 2), "u1")] * 5, "backwards": [np.arange(4)[::-1] + i for i in range(5)], "other order": [np.arange(3).astype(">i4")] * 5,
        "tensors": [sl.full((2,), i) for i in range(5)], "subclass": [np.ma.masked_array([1, 2]) for _ in range(5)],
    }  # fmt: skip
    for name, column in columns.items():
        want = np.stack([np.asarray(value) for value in column])
        made = _pipeline.collate([(value, 1) for value in column])
        np.testing.assert_array_equal(made[0], want, err_msg=name)
        assert made[0].dtype == want.dtype and type(made[0]) is np.ndarray and made[1].tolist() == [1] * 5, name
        assert not any(np.shares_memory(made[0], np.asarray(value)) for value in column if made[0].size)
        np.testing.assert_array_equal(_pipeline.collate(column)[0] if name != "lists" else want, want, err_msg=name)
    numbers = {np.int64: [1, -2], np.float32: [0.5, 2.0], np.bool_: [True, False]}
    for dtype, values in numbers.items():
        (made,) = _pipeline.collate([(value,) for value in values])
        assert made.dtype == dtype and made.tolist() == values
    for one, other in (([1, 2.5], "int64"), ([np.zeros(2), np.zeros(3)], "float64"), ([np.zeros(2), np.zeros(2, "f4")], "float64"), ([True, 1], "bool")):
        with pytest.raises(ValueError, match=f"expected {other}.* as field 0 of every sample"):
            _pipeline.collate([(value,) for value in one])
    for samples in ([(1, 2), (1,)], [(1, 2), 3], [(1, 2), (1, 2, 3)]):
        with pytest.raises(ValueError, match="expected samples with 2 fields each"):
            _pipeline.collate(samples)


def test_arrays_of_numpy_are_taken_by_their_buffers_and_kept():
    for code in "?bhilqBHILQefd":
        array = np.arange(12).astype(code).reshape(3, 4)
        for view in (array, array.T, array[1:, ::2], array[:, 1], array[2, 3], np.broadcast_to(array[0], (2, 4))):
            tensor = sl.from_numpy(view) if isinstance(view, np.ndarray) else sl.tensor(view)
            assert tensor.numpy().dtype == view.dtype and tensor.tolist() == view.tolist() and sl.tensor(view).tolist() == view.tolist(), code
    array = np.arange(6, dtype=np.float32)
    references = sys.getrefcount(array)
    shared, own = sl.from_numpy(array), sl.tensor(array)
    shared[0] = 9.0
    assert array[0] == 9 and own.tolist() == [0, 1, 2, 3, 4, 5] and sys.getrefcount(array) == references + 1
    del shared
    assert sys.getrefcount(array) == references
    array.flags.writeable = False
    with pytest.raises((sl.Error, ValueError)):
        sl.from_numpy(array)[0] = 1.0
