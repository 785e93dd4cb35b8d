"""A million calls leave nothing behind: no memory, no Python object, no reference; from one thread and from several."""

import gc
import sys
import threading

import numpy as np

import starling as sl
from memory import blocks, resident

CALLS = 1_000_000  # of each test


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
        for _ in range(rounds // 5):
            for _ in range(5):  # 19 calls
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
                c.item
                c + b
                c.sum()
                c.ndim
                c - a
            c.tolist()  # 5 calls that take longer
            c + array
            array + c
            c.sum().item()
            self.program(a)


CALLS_EACH = 20  # of a round


def warmed_up():
    work = Work()
    work(500)
    return work


def kept_by(act, work):
    """Bytes, blocks of Python, and references to what lasts that are more after the act than before."""
    gc.collect()
    references, memory, objects = work.references(), resident(), blocks()
    act()
    gc.collect()
    more = [now - before for now, before in zip(work.references(), references)]
    return resident() - memory, blocks() - objects, more


def expect_nothing(kept):
    memory, objects, references = kept
    assert references == [0] * len(references)
    assert objects < 1000  # one object a call would be a million
    assert memory < 4 << 20  # four bytes a call: the smallest allocation is of 32


def test_a_million_calls_of_one_thread():
    work = warmed_up()
    expect_nothing(kept_by(lambda: work(CALLS // CALLS_EACH), work))


def test_a_million_calls_of_four_threads():
    work = warmed_up()

    def together(rounds):
        threads = [threading.Thread(target=work, args=(rounds,)) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join(100) for thread in threads]
        assert not any(thread.is_alive() for thread in threads)

    together(500)  # memory that a thread keeps for itself is that of four threads, however long they run
    expect_nothing(kept_by(lambda: together(CALLS // 4 // CALLS_EACH), work))


class Twice(sl.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = sl.nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(x) * 2


class Training:
    """A step of everything that trains: module, hooks, backward pass, update, schedule, loader, transforms, control flow."""

    def __init__(self):
        self.net = Twice()
        self.optimizer = sl.optim.Adam(self.net.parameters(), lr=1e-3)
        self.schedule = sl.schedules.Cosine(self.optimizer, steps=10**6)
        self.x, self.y = np.ones((4, 4), np.float32), np.arange(4) % 2
        self.loader = sl.data.Loader((self.x, self.y), batch=2)
        self.samples = sl.data.Loader(iter(lambda: np.float32(1), 0), batch=2)
        self.weight = self.net.parameters()[0]
        self.hook = lambda gradient: gradient * 1
        self.loss = lambda w: (w * w).sum()
        self.metric = sl.metrics.Accuracy()

    def references(self):
        lasting = (self.net, self.net.fc, self.optimizer, self.x, self.hook, self.loss, self.loader, self.weight, Twice, sl.f32)
        return [sys.getrefcount(one) for one in lasting]

    def __call__(self, rounds):
        for _ in range(rounds):
            handle = self.weight.register_hook(self.hook)
            forward = self.net.register_forward_hook(lambda module, inputs, result: None)
            for x, y in self.loader:
                prediction = self.net(x)
                loss = sl.cross_entropy(prediction, y)
                loss.backward()
                self.optimizer.step()
                self.schedule.step()
            handle.remove()
            forward.remove()
            self.metric.update(prediction.detach(), y)
            self.metric.reset()
            sl.value_and_grad(self.loss)(self.weight.detach())
            sl.vjp(self.loss, self.x)[1](sl.ones(()))
            sl.recompute(self.loss, self.weight).backward()
            self.optimizer.zero_grad()
            sl.cond(True, lambda: 1.0, lambda: 2.0)
            self.net.state_dict(), self.optimizer.state_dict(), self.schedule.state_dict(), self.loader.state_dict()
            sl.set_random_state(sl.random_state())
            sl.from_dlpack(sl.ones(2))


TRAINED = 1000


def test_a_thousand_rounds_of_training():
    work = Training()
    work(100)
    memory, objects, references = kept_by(lambda: work(TRAINED), work)
    assert references == [0] * len(references)
    assert objects < TRAINED // 2  # one object a round would be a thousand
    assert memory < 4 << 20


def test_loaders_and_modules_that_end_leave_nothing():
    x, y = np.ones((8, 4), np.float32), np.arange(8) % 2

    def live(rounds):
        for i in range(rounds):
            net = Twice()
            list(sl.data.Loader((x, y), batch=4))
            for _ in sl.data.Loader(((x[0], 1) for _ in range(8)), batch=2, transform=lambda s: s):
                break
            trainer = sl.train.Trainer(net, sl.optim.SGD(net.parameters(), lr=0.1), lambda net, x, y: sl.cross_entropy(net(x), y), quiet=True)
            trainer.fit((x, y) if i % 2 else ((x[0], 1) for _ in range(8)))

    class Lasting:
        def references(self):
            return [sys.getrefcount(one) for one in (x, y, Twice)]

    live(10)
    memory, objects, references = kept_by(lambda: live(40), Lasting())
    assert max(references) <= 0, references
    assert objects < 2000 and memory < 8 << 20, (objects, memory)
