"""Data, training and ranks."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import textwrap

import numpy as np
import pytest

import starling as sl


def blobs(n=256):
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 2, n)
    return (generator.normal(size=(n, 4)) + 3 * labels[:, None]).astype(np.float32), labels


def test_loaders_go_through_everything_once_an_epoch():
    x, y = np.arange(10, dtype=np.float32)[:, None], np.arange(10)
    loader = sl.data.Loader((x, y), batch=4, seed=3)
    for _ in range(2):
        batches = list(loader)
        assert [b[0].shape for b in batches] == [(4, 1), (4, 1), (2, 1)] and len(loader) == 3
        assert sorted(v for b in batches for v in b[1].tolist()) == list(range(10))
        assert all(a[:, 0].tolist() == b.tolist() for a, b in batches)


def test_python_objects_are_data_sets():
    class Squares:
        def __len__(self):
            return 6

        def __getitem__(self, i):
            if i == 4 and getattr(self, "broken", False):
                raise OSError("no disk")
            return np.float32(i), i * i

    batches = list(sl.data.Loader(Squares(), batch=3, shuffle=False))
    assert batches[1][1].tolist() == [9, 16, 25]
    broken = Squares()
    broken.broken = True
    with pytest.raises(sl.Error, match="(?s)sample 4.*no disk"):
        list(sl.data.Loader(broken, batch=3, shuffle=False))
    with pytest.raises(TypeError, match="expected the name of a source"):
        sl.data.Loader(5, batch=3)
    with pytest.raises(sl.Error, match="did you mean 'fashion_mnist'"):
        sl.data.Loader("fashion_mnits", batch=3)


def test_a_trainer_trains_and_calls_back():
    seen = []

    class Watch:
        def begin(self, run):
            seen.append("begin")

        def step(self, run):
            seen.append(run.step)
            assert np.isfinite(run.loss)

        def evaluated(self, run):
            seen.append(run.metrics["accuracy"])

    net = sl.nn.Sequential(sl.nn.Linear(4, 16), sl.nn.Relu(), sl.nn.Linear(16, 2))
    trainer = sl.train.Trainer(net, sl.optim.Adam(net.parameters(), lr=0.01), epochs=5, batch=64, callbacks=[Watch()], quiet=True)
    summary = trainer.fit(blobs(), blobs())
    assert summary["steps"] == 20 and summary["metrics"]["accuracy"] > 0.95
    assert seen[0] == "begin" and [s for s in seen if isinstance(s, int)] == list(range(1, 21)) and seen[-1] > 0.95
    assert trainer.evaluate(blobs())["accuracy"] == pytest.approx(summary["metrics"]["accuracy"])


def test_callbacks_stop_a_run_and_their_errors_end_it():
    class Stop:
        def step(self, run):
            if run.step == 3:
                run.stop("enough")

    class Break:
        def step(self, run):
            raise RuntimeError("my own")

    def trainer(callback):
        net = sl.nn.Linear(4, 2)
        return sl.train.Trainer(net, sl.optim.SGD(net.parameters(), lr=0.1), epochs=5, callbacks=[callback], quiet=True)

    assert trainer(Stop()).fit(blobs())["steps"] == 3
    with pytest.raises(RuntimeError, match="my own"):
        trainer(Break()).fit(blobs())


def job(folder, tmp_path):
    x, y = blobs()
    np.savez(tmp_path / "blobs.npz", x=x, y=y)
    return {
        "model": {"name": "mlp"},
        "data": {"name": "npy", "train": [f"{tmp_path}/blobs.npz:x", f"{tmp_path}/blobs.npz:y"], "test_share": 0.25, "batch": 32},
        "optimizer": {"name": "sgd", "lr": 0.05},
        "train": {"epochs": 2, "folder": str(folder)},
    }


def test_a_job_ends_in_the_weights_of_the_program(tmp_path):
    summary = sl.train.run(job(tmp_path / "python", tmp_path), quiet=True)
    assert summary["steps"] == 12 and summary["metrics"]["test_accuracy"] > 0.9
    assert json.loads((tmp_path / "python/summary.json").read_text())["weights_hash"] == summary["weights_hash"]
    longer = sl.train.run(job(tmp_path / "python", tmp_path), set=["train.epochs=3"], quiet=True)
    assert longer["steps"] == 18
    with pytest.raises(sl.Error, match="did you mean 'optimizer'"):
        sl.train.run({"optimzer": "adam"})
    if not starling_program():
        pytest.skip("STARLING_PROGRAM does not name the program `starling`")
    (tmp_path / "job.yaml").write_text(json.dumps(job(tmp_path / "program", tmp_path)))
    subprocess.run([starling_program(), "train", str(tmp_path / "job.yaml")], check=True, capture_output=True, timeout=60)
    assert json.loads((tmp_path / "program/summary.json").read_text())["weights_hash"] == summary["weights_hash"]


def test_a_saved_model_predicts(tmp_path):
    sl.train.run(job(tmp_path / "run", tmp_path), quiet=True)
    model = sl.SavedModel(str(tmp_path / "run/model"))
    x, y = blobs()
    assert (model(x).argmax(1).numpy() == y).mean() > 0.9
    with pytest.raises(sl.Error, match="expected"):
        model(x[:, :2])
    with pytest.raises(sl.Error):
        sl.SavedModel(str(tmp_path))


def test_two_thread_workers_give_one_workers_bits():
    x, y = blobs(48)

    def train(workers):
        sl.manual_seed(2)
        net = sl.nn.Linear(4, 2)
        optimizer = sl.optim.SGD(net.parameters(), lr=0.1)

        def step(a, b):
            loss = sl.cross_entropy(net(a), b)
            loss.backward()
            optimizer.step()
            return loss

        step = sl.compile(step, strategy=sl.dist.data_parallel(workers, deterministic=True))
        losses = [step(x, y).item() for _ in range(4)]
        return losses, net.state_dict()["weight"].numpy().tobytes()

    assert train(1) == train(2)


RANKS = """
    import json, pathlib, sys, numpy as np, starling as sl
    sl.dist.init()
    rank, size = sl.dist.rank(), sl.dist.size()
    total = sl.dist.all_reduce(sl.tensor([rank + 1.0]))
    assert total.item() == size * (size + 1) / 2, total
    sl.manual_seed(2)
    net = sl.nn.Linear(4, 2)
    optimizer = sl.optim.SGD(net.parameters(), lr=0.1)
    def step(x, y):
        loss = sl.cross_entropy(net(x), y); loss.backward(); optimizer.step(); return loss
    step = sl.compile(step, strategy=sl.dist.allreduce(deterministic=True))
    x = np.random.default_rng(0).normal(size=(24, 4)).astype(np.float32); y = np.arange(24) % 2
    mine = slice(rank * 24 // size, (rank + 1) * 24 // size)
    for _ in range(3): loss = step(x[mine], y[mine])
    told = [rank, size, net.state_dict()["weight"].numpy().tobytes().hex(), loss.item()]
    pathlib.Path(sys.argv[1], f"rank{rank}").write_text(json.dumps(told))
"""


TRAINED = """
    import json, pathlib, sys, numpy as np, starling as sl
    strategy = sl.dist.local_sgd(every=2)
    rank, size = sl.dist.rank(), sl.dist.size()
    try:
        sl.compile(lambda x: x, strategy=strategy)(sl.ones(2))
    except sl.Error as error:
        assert "Trainer(strategy" in str(error), error
    sl.manual_seed(2)
    net = sl.nn.Linear(4, 2)
    generator = np.random.default_rng(0)
    y = generator.integers(0, 2, 96)
    x = (generator.normal(size=(96, 4)) + 3 * y[:, None]).astype(np.float32)
    trainer = sl.train.Trainer(net, sl.optim.SGD(net.parameters(), lr=0.2), epochs=4, batch=16, strategy=strategy, quiet=True)
    summary = trainer.fit((x, y), (x, y))
    assert summary["steps"] == 24 and summary["metrics"]["accuracy"] > 0.9, summary
    told = [rank, size, net.state_dict()["weight"].numpy().tobytes().hex()]
    pathlib.Path(sys.argv[1], f"rank{rank}").write_text(json.dumps(told))
"""


def launched(command, tmp_path, program=RANKS):
    script = tmp_path / "ranks.py"
    script.write_text(textwrap.dedent(program))
    # Files, not lines: whoever gathers the output of the ranks may put one line into the middle of another.
    told = pathlib.Path(tempfile.mkdtemp(dir=tmp_path))
    done = subprocess.run(
        command + [sys.executable, str(script), str(told)], capture_output=True, text=True, timeout=120, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stdout + done.stderr
    results = sorted(json.loads(file.read_text()) for file in told.iterdir())
    ranks = [(rank, size) for rank, size, *_ in results]
    assert ranks == [(rank, len(results)) for rank in range(len(results))], ranks
    bits = {tuple(rest) for _, _, *rest in results}
    assert len(bits) == 1, "ranks end in different weights"
    return len(results), bits.pop()


def starling_program():
    return os.environ.get("STARLING_PROGRAM", "")


def test_processes_give_one_processs_bits(tmp_path):
    ranks, alone = launched([], tmp_path)
    assert ranks == 1
    if not starling_program():
        pytest.skip("STARLING_PROGRAM does not name the program `starling`")
    assert launched([starling_program(), "launch", "-n", "2", "--"], tmp_path) == (2, alone)


def test_a_trainer_takes_every_strategy_of_jobs(tmp_path):
    if not starling_program():
        pytest.skip("STARLING_PROGRAM does not name the program `starling`")
    assert launched([starling_program(), "launch", "-n", "2", "--"], tmp_path, TRAINED)[0] == 2


def test_ranks_of_mpirun_give_one_processs_bits(tmp_path):
    if shutil.which("mpirun") is None:
        pytest.skip("mpirun is not installed")
    mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2"]
    assert launched(mpirun, tmp_path) == (2, launched([], tmp_path)[1])


# Rank 1 lingers, so that rank 0, which fails for its leaving, could end first.
RAISES = """
    import time, starling as sl
    sl.dist.init()
    try:
        if sl.dist.rank() == 1: raise ValueError("of rank one")
        sl.dist.all_reduce(sl.tensor([1.0]))
    except ValueError:
        import sys; sys.excepthook(*sys.exc_info()); sl.dist.leave(); time.sleep(3); sys.exit(1)
"""


def test_launch_names_the_rank_that_raised(tmp_path):
    if not starling_program():
        pytest.skip("STARLING_PROGRAM does not name the program `starling`")
    script = tmp_path / "raises.py"
    script.write_text(textwrap.dedent(RAISES))
    done = subprocess.run(
        [starling_program(), "launch", "-n", "2", "--", sys.executable, str(script)],
        capture_output=True, text=True, timeout=120, env=dict(os.environ),
    )
    assert done.returncode == 1, done.stderr
    assert "starling: rank 1 (pid " in done.stderr, done.stderr
    assert "starling: rank 0 (pid " not in done.stderr, done.stderr
    assert "ValueError: of rank one" in done.stderr, done.stderr


EXITS = """
    import sys, starling as sl
    sl.dist.init()
    def caught():
        try: sys.exit(4)
        except SystemExit: pass
    caught()
    if sl.dist.rank() == 1: sys.exit({status})
    {wait}
"""


def test_launch_tells_where_a_rank_called_exit(tmp_path):
    if not starling_program():
        pytest.skip("STARLING_PROGRAM does not name the program `starling`")
    script = tmp_path / "exits.py"
    for status, wait, code in ((3, "sl.dist.all_reduce(sl.tensor([1.0]))", 1), (0, "pass", 0)):
        script.write_text(textwrap.dedent(EXITS).format(status=status, wait=wait))
        done = subprocess.run(
            [starling_program(), "launch", "-n", "2", "--", sys.executable, str(script)],
            capture_output=True, text=True, timeout=120, env=dict(os.environ),
        )
        assert done.returncode == code, done.stderr
        assert ("sys.exit(3) in " in done.stderr and "exits.py:8" in done.stderr) == (status == 3), done.stderr
        assert "sys.exit(4)" not in done.stderr, "somebody has caught it"


INTERRUPTED = """
    import os, signal, sys, threading, time, numpy as np, starling as sl
    class Watch:
        def begin(self, run): threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        def end(self, run): print("end", flush=True)
    net = sl.nn.Linear(4, 2)
    trainer = sl.train.Trainer(net, sl.optim.SGD(net.parameters(), lr=0.1), epochs=10**6, callbacks=[Watch()], quiet=True)
    try:
        trainer.fit((np.ones((64, 4), np.float32), np.zeros(64, np.int64)))
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


def run_script(text, tmp_path, seconds=60):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(text))
    return subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=seconds, env=dict(os.environ))


def test_ctrl_c_ends_a_run_as_python_expects(tmp_path):
    done = run_script(INTERRUPTED, tmp_path)
    assert done.stdout.split() == ["end", "interrupted"] and done.returncode == 0, done.stdout + done.stderr


SLOW = """
    import time, numpy as np, starling as sl
    class Slow:
        def __len__(self): return 64
        def __getitem__(self, i):
            time.sleep(0.001)
            return np.float32(i), i
    for _ in sl.data.Loader(Slow(), batch=16): pass
    for _ in sl.data.Loader(Slow(), batch=8, workers=2): break
    left = sl.data.Loader(Slow(), batch=4)
    for _ in left: break
    print("done", flush=True)
"""


def test_loaders_over_python_objects_end_with_the_loop_and_with_the_program(tmp_path):
    done = run_script(SLOW, tmp_path, 30)
    assert (done.returncode, done.stdout.strip()) == (0, "done"), done.stdout + done.stderr


def test_a_loop_that_was_left_begins_the_next_epoch():
    loader = sl.data.Loader((np.arange(10),), batch=2)
    for _ in loader:
        break
    assert sorted(v for batch in loader for v in batch.tolist()) == list(range(10))


def test_a_run_is_of_no_use_after_its_callback():
    kept = []

    class Keep:
        def step(self, run):
            kept.append(run)

    net = sl.nn.Linear(4, 2)
    sl.train.Trainer(net, sl.optim.SGD(net.parameters(), lr=0.1), steps=1, callbacks=[Keep()], quiet=True).fit(blobs())
    with pytest.raises(sl.Error, match="inside a callback"):
        kept[0].step


def test_modules_that_recompute_train():
    class Net(sl.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = sl.nn.Linear(4, 2)

        def forward(self, x):
            return sl.recompute(lambda a: self.fc(a).tanh(), x)

    net = Net()
    trainer = sl.train.Trainer(net, sl.optim.Adam(net.parameters(), lr=0.05), epochs=5, quiet=True)
    assert trainer.fit(blobs(), blobs())["metrics"]["accuracy"] > 0.9


def test_parameters_without_names_are_numbered_within_their_optimizer():
    def state_names():
        tensors = [sl.tensor([1.0], requires_grad=True) for _ in range(2)]
        return tensors, sorted(sl.optim.Adam(tensors, lr=0.1).state_dict())

    _, first = state_names()
    tensors, second = state_names()
    assert first == second and any("parameter_2" in name for name in first)
    fresh = sl.tensor([1.0], requires_grad=True)
    sl.optim.Adam([fresh, *tensors], lr=0.1)  # beside ones that have names already
    assert len({fresh.name, *(tensor.name for tensor in tensors)}) == 3
