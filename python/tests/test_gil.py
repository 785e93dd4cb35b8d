"""The GIL is free while programs, kernels and exchanges run, and Ctrl-C ends them."""

import threading
import time

import numpy as np
import pytest

import starling as sl
from ranks import run_script, starling_program

SIZE = 1200  # each call takes many times longer than a turn of the scheduler


def slow(x):
    """Long in kernels, short in Python."""
    return (x @ x) @ (x @ x)


def counted_meanwhile(work):
    """How often another Python thread gets its turn during the longest stretch in which this one does not run Python."""
    turns, done = [], threading.Event()

    def count():
        while not done.is_set():
            turns.append(time.perf_counter())
            time.sleep(0.0005)

    other = threading.Thread(target=count, daemon=True)
    other.start()
    begin = time.perf_counter()
    work()
    end = time.perf_counter()
    done.set()
    other.join(10)
    waits = np.diff([begin, *[t for t in turns if begin < t < end], end])
    return end - begin, float(waits.max())


def native():
    return sl.nn.declared([{"linear": {"out": SIZE}}] * 3, (SIZE,))


X = sl.full((SIZE, SIZE), 1e-3)
CASES = {
    "op": lambda: slow(X),
    "grad": lambda: sl.grad(lambda x: slow(x).sum())(X),
    "vjp": lambda: sl.vjp(slow, X)[1](X),
    "jvp": lambda: sl.jvp(slow, (X,), (X,)),
    "recompute": lambda: sl.recompute(slow, X),
    "gradients": lambda: sl.gradients([slow(W).sum()], [W]),
    "compiled": sl.compile(slow).__call__,
    "cond": lambda: sl.cond(sl.tensor(True), lambda: slow(X), lambda: X),
    "while": lambda: sl.while_loop(lambda x: (x[0, 0] < 0), lambda x: x, slow(X)),
    "scan": lambda: sl.scan(lambda c, x: (slow(c), x), X, sl.ones(2)),
    "module": lambda: NET(X),
    "predict": lambda: TRAINER.predict(X),
}
W = sl.full((SIZE, SIZE), 1e-3).requires_grad_()
NET = native()
TRAINER = sl.train.Trainer(NET, sl.optim.SGD(NET.parameters(), lr=0.1), quiet=True)


@pytest.mark.parametrize("name", CASES)
def test_other_threads_run_meanwhile(name):
    work = CASES[name] if name != "compiled" else (lambda: CASES[name](X))
    work()  # plans, traces
    waits = []
    for _ in range(5):  # a busy machine lets nobody run for a while: once it must work
        seconds, longest = counted_meanwhile(work)
        waits.append((seconds, longest))
        if longest < seconds / 2:
            return
    pytest.fail(f"another thread waited for nearly all of a call: {waits}")


def test_files_are_read_while_other_threads_run(tmp_path):
    net = sl.nn.Linear(2000, 2000)
    sl.save(net.state_dict(), tmp_path / "state.safetensors")
    sl.save_model(sl.nn.Sequential(net), tmp_path / "model", sl.ones((1, 2000)))
    kept = sl.train.Checkpoints(tmp_path / "kept", net=net)
    kept.save(1)
    reads = {
        "load": lambda: [sl.load(tmp_path / "state.safetensors") for _ in range(4)],
        "checkpoint": lambda: [kept._folder.load(None) for _ in range(4)],
        "model": lambda: [sl.SavedModel(str(tmp_path / "model")) for _ in range(8)],
    }
    for name, work in reads.items():
        work()
        assert any(longest < seconds / 2 for seconds, longest in (counted_meanwhile(work) for _ in range(5))), name


def test_ranks_that_are_threads_meet_inside_of_grad():
    def rank(scale):
        def loss(x):
            total = sl.dist.all_reduce(x * (sl.dist.rank() + 1.0))
            return (total * total).sum()

        gradient = sl.grad(loss)(sl.full((3,), scale))
        output, pullback = sl.vjp(sl.dist.all_reduce, sl.ones(2))
        pulled = pullback(sl.ones(2))[0]
        return sl.dist.rank(), sl.dist.size(), gradient.tolist(), output.tolist(), pulled.tolist()

    first, second = sl.dist.spawn(rank, 2, 2.0)
    assert first[:2] == (0, 2) and second[:2] == (1, 2)
    # loss = sum (x0 + 2 x1)^2 on both ranks: its derivative flows back from both
    assert first[2] == [24.0] * 3 and second[2] == [48.0] * 3
    assert first[3] == second[3] == [2.0, 2.0] and first[4] == second[4] == [2.0, 2.0]


def test_thread_ranks_train_to_one_ranks_weights():
    x = np.random.default_rng(0).normal(size=(24, 4)).astype(np.float32)
    y = np.arange(24) % 2

    def train(strategy):
        sl.manual_seed(2)
        net = sl.nn.Linear(4, 2)
        optimizer = sl.optim.SGD(net.parameters(), lr=0.1)

        def step(a, b):
            loss = sl.cross_entropy(net(a), b)
            loss.backward()
            optimizer.step()
            return loss

        own = sl.compile(step, strategy=sl.dist.allreduce(deterministic=True))
        rank, size = sl.dist.rank(), sl.dist.size()
        for _ in range(3):
            own(x[rank * 24 // size : (rank + 1) * 24 // size], y[rank * 24 // size : (rank + 1) * 24 // size])
        return net.weight.numpy().tobytes()

    (alone,) = sl.dist.spawn(train, 1, None)
    assert sl.dist.spawn(train, 3, None) == [alone] * 3


def test_an_error_of_a_thread_rank_ends_the_others():
    def rank():
        if sl.dist.rank() == 1:
            raise ValueError("of rank one")
        sl.dist.all_reduce(sl.ones(1))

    with pytest.raises(ValueError, match="of rank one"):
        sl.dist.spawn(rank, 2)
    assert sl.dist.spawn(lambda: sl.dist.all_reduce(sl.ones(1)).item(), 2) == [2, 2]


LONG = """
    import os, signal, sys, threading, time, starling as sl
    x = sl.full((300, 300), 1e-3)
    program = sl.compile(lambda x: sl.while_loop(lambda s: (s[0, 0] > -1.0), lambda s: (s @ x) * 0.5, x))
    ended = 0
    for way in range(2):
        threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
        begin = time.monotonic()
        try:
            program(x)
        except KeyboardInterrupt:
            ended += time.monotonic() - begin < 20
    print("ended", ended, (x @ x)[0, 0].item() > 0, flush=True)
"""


def test_ctrl_c_ends_a_long_program(tmp_path):
    done = run_script(LONG, tmp_path, seconds=60)
    assert done.stdout.split() == ["ended", "2", "True"], done.stdout + done.stderr


OWN_HANDLER = """
    import os, signal, threading, time, starling as sl
    seen = []
    signal.signal(signal.SIGINT, lambda *about: seen.append(1))
    x = sl.full((150, 150), 1e-3)
    program = sl.compile(lambda x: sl.while_loop(lambda s: (s[1] < 800).any(), lambda s: (s[0] @ x, s[1] + 1), (x, sl.zeros(1)))[1])
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    ended = program(x).item()
    time.sleep(0.5)
    print(ended, seen, flush=True)
"""


def test_a_handler_of_ones_own_leaves_programs_alone(tmp_path):
    done = run_script(OWN_HANDLER, tmp_path, seconds=60)
    assert done.stdout.split() == ["800.0", "[1]"], done.stdout + done.stderr


WAITS = """
    import os, signal, sys, threading, time, starling as sl
    sl.dist.init()
    if sl.dist.rank() == 1:
        time.sleep(4)                                   # never comes
        try:
            sl.dist.all_reduce(sl.ones(1))
        except sl.Error as error:
            print("told", "Ctrl-C" in str(error), flush=True)
        os._exit(0)
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    begin = time.monotonic()
    try:
        {wait}
    except KeyboardInterrupt:
        print("interrupted", time.monotonic() - begin < 3, flush=True)
    os._exit(0)
"""


@pytest.mark.parametrize("wait", ["sl.dist.all_reduce(sl.ones(1))", "sl.grad(lambda x: sl.dist.all_reduce(x).sum())(sl.ones(1))"], ids=["alone", "grad"])
def test_ctrl_c_ends_a_wait_for_other_ranks(wait, tmp_path):
    if not starling_program():
        pytest.skip("STARLING_PROGRAM does not name the program `starling`")
    done = run_script(WAITS.format(wait=wait), tmp_path, seconds=60, command=[starling_program(), "launch", "-n", "2", "--"])
    assert "interrupted True" in done.stdout and "told True" in done.stdout, done.stdout + done.stderr
