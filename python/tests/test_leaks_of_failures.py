"""What fails leaves nothing behind: interrupts, exceptions in code of the user's, odd arrays, workers that die."""

import gc
import multiprocessing
import os

import numpy as np
import pytest

import starling as sl
from memory import SANITIZED, blocks, resident, settled, threads
from ranks import run_script

X, Y = np.ones((8, 4), np.float32), np.arange(8) % 2


class Mine(Exception):
    pass


def fails(*_):
    raise Mine("here")


class Broken:
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return fails() if i == 5 else (X[i], Y[i])


class Calls:
    def __init__(self, when):
        self.__dict__[when] = fails


def trainer(net, **options):
    return sl.train.Trainer(net, sl.optim.SGD(net.parameters(), lr=0.1), batch=4, quiet=True, **options)


def in_callbacks():
    for when in ("begin", "step", "evaluated", "epoch", "end"):
        yield lambda when=when: trainer(sl.nn.Linear(4, 2), callbacks=[Calls(when)]).fit((X, Y), (X, Y))


def in_hooks():
    weight = sl.ones(1000).requires_grad_()
    weight.register_hook(fails)
    yield lambda: (weight * 2).sum().backward()
    yield lambda: sl.grad(lambda w: fails() if w.requires_grad else w)(sl.ones(1000))
    net = sl.nn.Linear(4, 2)
    net.register_forward_hook(fails)
    yield lambda: net(X)

    class Bad(sl.Function):
        forward = staticmethod(lambda context, x: (context.save(x), x * 1)[1])
        backward = staticmethod(fails)

    yield lambda: Bad.apply(sl.ones(1000).requires_grad_()).sum().backward()
    yield lambda: sl.compile(lambda x: Bad.apply(x).sum().backward() or x)(sl.ones(1000).requires_grad_())


def in_loaders():
    yield lambda: list(sl.data.Loader(Broken(), batch=2, shuffle=False))
    yield lambda: list(sl.data.Loader(Broken(), batch=2, shuffle=False, transform=lambda s: s, workers=2))
    yield lambda: list(sl.data.Loader((fails() if i == 5 else X[i] for i in range(8)), batch=2))
    yield lambda: list(sl.data.Loader(Broken(), batch=2, collate_fn=fails))


def in_trainers():
    yield lambda: trainer(sl.nn.Linear(4, 2)).fit(Broken())
    yield lambda: trainer(sl.nn.Linear(4, 2)).fit((fails() if i == 5 else (X[i], 1) for i in range(8)))
    yield lambda: trainer(sl.nn.Linear(4, 2)).fit(sl.data.Loader(Broken(), batch=2, transform=lambda s: s))
    net = sl.nn.Linear(4, 2)
    yield lambda: sl.train.Trainer(net, sl.optim.SGD(net.parameters(), lr=0.1), fails, quiet=True).fit((X, Y))


def of_odd_arrays():
    wide = np.ones((100, 1000), np.float32)
    frozen = wide.copy()
    frozen.flags.writeable = False
    yield lambda: sl.from_numpy(frozen).__setitem__(0, 1.0)
    yield lambda: sl.from_numpy(frozen[::-1]).assign(sl.ones(3))
    yield lambda: sl.tensor(wide.astype(">f8"))["x"]
    yield lambda: sl.asarray(wide.astype(np.complex64))
    yield lambda: sl.asarray(np.array([object()] * 1000))
    yield lambda: sl.from_dlpack(wide[::-1], copy=False)
    yield lambda: sl.tensor([[1.0] * 1000, [2.0]])
    yield lambda: sl.tensor([1 << 40] * 1000, "i8")
    yield lambda: sl.from_numpy(np.lib.stride_tricks.as_strided(wide, (1000, 1000), (4, 4))).reshape(7)
    yield lambda: sl.tensor(np.zeros((1,) * 12))


KINDS = {"callbacks": (in_callbacks, 20), "hooks": (in_hooks, 100), "loaders": (in_loaders, 20), "trainers": (in_trainers, 20), "odd arrays": (of_odd_arrays, 100)}


@pytest.mark.parametrize("kind", KINDS)
def test_exceptions_leave_nothing(kind):
    make, rounds = KINDS[kind]

    def all_of_them():
        for act in make():
            with pytest.raises((Mine, sl.Error, TypeError, ValueError, OverflowError, IndexError, BufferError)):
                act()

    def repeated(count):
        for _ in range(count):
            all_of_them()
        gc.collect()

    repeated(rounds // 4)
    memory, objects, running = resident(), blocks(), threads()
    repeated(rounds)
    assert settled(threads, running) <= running
    assert blocks() - objects < 40 * rounds, (blocks() - objects) / rounds  # the arguments of one exception alone are more
    assert resident() - memory < 12 << 20


INTERRUPTED = """
    import gc, os, signal, sys, threading, time, starling as sl
    sys.path.insert(0, {tests!r})
    from memory import blocks, resident
    x = sl.full((200, 200), 1e-3)
    program = sl.compile(lambda x: sl.while_loop(lambda s: (s[0, 0] > -1.0), lambda s: (s @ x) * 0.5, x))
    w = sl.full((200, 200), 1e-3).requires_grad_()
    def eager():
        y = w
        while True:
            (y @ w).tanh().sum().backward()
            w.grad = None
    class Watch:
        def step(self, run): pass
    def train():
        net = sl.nn.Linear(4, 2)
        trainer = sl.train.Trainer(net, sl.optim.SGD(net.parameters(), lr=0.1), epochs=10**6, quiet=True, callbacks=[Watch()])
        trainer.fit((X, Y))
    import numpy as np
    X, Y = np.ones((64, 4), np.float32), np.zeros(64, np.int64)
    def interrupted(act):
        try:
            threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
            act()
        except KeyboardInterrupt:
            return True
    def rounds(count):
        done = 0
        for _ in range(count):
            for act in (lambda: program(x), eager, train): done += bool(interrupted(act))
        gc.collect()
        return done
    rounds(5)
    memory, objects = resident(), blocks()
    done = rounds(15)
    print(done, blocks() - objects < 1500, resident() - memory < 8 << 20, flush=True)
"""


@pytest.mark.skipif(SANITIZED, reason="a sanitizer keeps memory that was freed")
def test_interrupts_leave_nothing(tmp_path):
    done = run_script(INTERRUPTED.format(tests=os.path.dirname(os.path.abspath(__file__))), tmp_path)
    assert done.stdout.split() == ["45", "True", "True"], done.stdout + done.stderr


class Dies:
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return os._exit(3) if i == 5 else np.float32(i)


@pytest.mark.skipif(SANITIZED, reason="forks a process of the sanitizer's")
def test_workers_that_die_leave_nothing():
    def die(count):
        for _ in range(count):
            with pytest.raises(sl.Error, match="code 3"):
                list(sl.data.Loader(Dies(), batch=2, shuffle=False, workers=2, processes=True))
        gc.collect()

    counts = (lambda: len(os.listdir("/proc/self/fd")), threads, lambda: len(multiprocessing.active_children()))
    die(2)
    before, objects = [count() for count in counts], blocks()
    die(8)
    assert all(settled(count, then) <= then for count, then in zip(counts, before))
    assert blocks() - objects < 800
