"""A million calls leave nothing behind: no memory, no Python object, no reference; from one thread and from several."""

import sys
import threading

import numpy as np

import starling as sl
from memory import blocks, resident

CALLS = 1_000_000


class Work:
    """Calls of every kind, each of which makes objects of Python or tensors, or takes references to what lasts."""

    def __init__(self):
        self.a, self.b = sl.ones(8), sl.ones(8)
        self.key, self.number = slice(1, 5), 2.5
        self.array = np.ones(8, np.float32)
        self.program = sl.compile(lambda x: x * 2)
        self.program(self.a)

    def references(self):
        return [sys.getrefcount(one) for one in (self.a, self.b, self.key, self.array, sl.f32, sl.add, sl.Tensor, self.program)]

    def __call__(self, rounds):
        a, b, add, key, number, array = self.a, self.b, sl.add, self.key, self.number, self.array
        for _ in range(rounds):  # 20 calls each
            c = a + b
            c = c * number
            c = -c
            c = add(c, b)
            c.relu()
            c.shape
            c.dtype
            c.requires_grad
            c[key]
            c.T
            c.reshape(2, 4)
            c.detach()
            c.numpy()
            len(c)
            c.tolist()
            c + array
            array + c
            c.sum().item()
            self.program(a)


CALLS_EACH = 20


def warmed_up():
    work = Work()
    work(500)
    return work


def kept_by(act, work):
    """Bytes, blocks of Python, and references to what lasts that are more after the act than before."""
    references, memory, objects = work.references(), resident(), blocks()
    act()
    more = [now - before for now, before in zip(work.references(), references)]
    return resident() - memory, blocks() - objects, more


def expect_nothing(kept):
    memory, objects, references = kept
    assert references == [0] * len(references)
    assert objects < 1000  # one object a call would be a million
    assert memory < 4 << 20  # four bytes a call: the smallest allocation is of 32


def test_a_million_calls_of_one_thread():
    work = warmed_up()
    expect_nothing(kept_by(lambda: work(CALLS // 2 // CALLS_EACH), work))


def test_a_million_calls_of_four_threads():
    work = warmed_up()

    def together(rounds):
        threads = [threading.Thread(target=work, args=(rounds,)) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join(100) for thread in threads]
        assert not any(thread.is_alive() for thread in threads)

    together(500)  # memory that a thread keeps for itself is that of four threads, however long they run
    expect_nothing(kept_by(lambda: together(CALLS // 2 // 4 // CALLS_EACH), work))
