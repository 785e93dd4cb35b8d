"""Every strategy that jobs name, from Python: those of equal ranks in a Trainer, those with parameter servers as jobs."""

import os

import pytest

import starling as sl
from ranks import starling_program, told_by_ranks

SERVERS = ["async", "downpour", "kvstore", "nexus", "poseidon", "project_adam", "sandblaster", "ssp", "sync_server"]
EQUAL = sorted(set(sl._starling._strategy_kinds()) - set(SERVERS))

PROGRAM = """
    import json, pathlib, sys, numpy as np, starling as sl
    sl.dist.init()
    rank, size = sl.dist.rank(), sl.dist.size()
    generator = np.random.default_rng(0)
    y = generator.integers(0, 2, 128)
    x = (generator.normal(size=(128, 4)) + 3 * y[:, None]).astype(np.float32)
    told = []
    for kind in {kinds}:
        sl.manual_seed(2)
        net = sl.nn.Linear(4, 2)
        trainer = sl.train.Trainer(net, sl.optim.SGD(net.parameters(), 0.2), epochs=4, batch=16, strategy=getattr(sl.dist, kind)(), quiet=True)
        told.append(trainer.fit((x, y), (x, y))["metrics"]["accuracy"])
    pathlib.Path(sys.argv[1], f"rank{{rank}}").write_text(json.dumps([rank, size, told]))
"""


def test_the_kinds_are_all_known():
    assert EQUAL == ["allreduce", "backup_workers", "bmuf", "easgd", "emso", "h2o", "hogwild", "local_sgd"]


def test_a_trainer_takes_every_strategy_of_equal_ranks(tmp_path):
    if not starling_program():
        pytest.skip("STARLING_PROGRAM does not name the program `starling`")
    for _, size, told in told_by_ranks([starling_program(), "launch", "-n", "2", "--"], tmp_path, PROGRAM.format(kinds=EQUAL)):
        assert size == 2 and all(accuracy > 0.9 for accuracy in told), dict(zip(EQUAL, told))


@pytest.mark.parametrize("kind", SERVERS)
def test_strategies_with_servers_train_as_jobs(kind, tmp_path):
    summary = sl.train.run(
        {
            "model": "mlp",
            "data": {"name": "synthetic", "shape": [8], "classes": 2, "train_samples": 256, "batch": 16},
            "optimizer": {"name": "sgd", "lr": 0.05},
            "train": {"epochs": 2, "folder": str(tmp_path / "run")},
            "distribute": {"strategy": kind, "workers": 2, "servers": 2},
        },
        quiet=True,
    )
    assert summary["steps"] > 0 and summary["metrics"]["test_accuracy"] > 0.6


@pytest.mark.parametrize("kind", SERVERS)
def test_strategies_with_servers_say_how_they_are_run(kind):
    name = kind + "_" if kind == "async" else kind
    with pytest.raises(sl.Error, match=rf'run it as a job.*"strategy": "{kind}".*"servers": 1'):
        getattr(sl.dist, name)()


@pytest.mark.parametrize("kind", ["local_sgd", "bmuf", "emso", "h2o", "hogwild", "easgd", "backup_workers"])
def test_threads_that_share_a_network_are_told_what_to_start_instead(kind, tmp_path):
    with pytest.raises(sl.Error, match="expected distribute.strategy: allreduce.*starling launch"):
        sl.train.Trainer(sl.nn.Linear(4, 2), own_job(tmp_path, kind, workers=2), quiet=True).fit()


@pytest.mark.parametrize("kind", SERVERS)
def test_a_network_of_ones_own_is_refused_beside_servers(kind, tmp_path):
    """Leader, workers and servers each have a network, which they make by the job."""
    for more in ({"workers": 2}, {}):
        with pytest.raises(sl.Error, match=rf"without parameter servers.*got strategy {kind}.*model: {{layers"):
            sl.train.Trainer(sl.nn.Linear(4, 2), own_job(tmp_path, kind, servers=1, **more), quiet=True).fit()


class Made:
    """Makes networks, and remembers them."""

    def __init__(self):
        self.nets = []

    def __call__(self):
        net = sl.nn.Sequential(sl.nn.Linear(8, 16), sl.nn.Tanh(), sl.nn.Linear(16, 2))
        net.first = net.state_dict()["0.weight"].tolist()
        self.nets.append(net)
        return net


def made_job(folder, kind, **distribute):
    return {
        "data": {"name": "synthetic", "shape": [8], "classes": 2, "train_samples": 256, "batch": 16},
        "optimizer": {"name": "sgd", "lr": 0.05},
        "train": {"epochs": 2, "folder": str(folder), "seed": 5},
        "distribute": {"strategy": kind, "workers": 2, **distribute},
    }


@pytest.mark.parametrize("kind", [*EQUAL, *SERVERS])
def test_a_function_makes_a_network_for_every_rank(kind, tmp_path):
    make, servers = Made(), {"servers": 2} if kind in SERVERS else {}
    trainer = sl.train.Trainer(make, made_job(tmp_path / "run", kind, **servers), quiet=True)
    summary = trainer.fit()
    assert summary["steps"] > 0 and summary["metrics"]["test_accuracy"] > 0.6
    assert len(make.nets) == (3 if servers else 2)  # workers, and their leader, who holds what they have trained
    assert all(net.first == make.nets[0].first for net in make.nets) and any(net is trainer.net for net in make.nets)
    kept = {name.removeprefix("net."): weight for name, weight in sl.SavedModel(str(tmp_path / "run/model")).weights.items()}
    own = trainer.net.state_dict()
    assert sorted(kept) == sorted(own) and all(kept[name].tolist() == own[name].tolist() for name in own)
    assert own["0.weight"].tolist() != trainer.net.first


def test_networks_of_ranks_train_as_one_that_is_shared(tmp_path):
    """Deterministic all-reduce: the same bits whether ranks have a network each or steps of one run on several threads."""
    made = []
    for name, net in (("made", Made()), ("shared", None)):
        if net is None:
            sl.manual_seed(5)
            net = Made()()
        job = made_job(tmp_path / name, "allreduce", deterministic=True)
        trainer = sl.train.Trainer(net, job, quiet=True)
        trainer.fit()
        made.append([tensor.tolist() for tensor in trainer.net.state_dict().values()])
    assert made[0] == made[1]


def test_what_a_function_for_networks_cannot_do_is_told(tmp_path):
    def fails():
        raise LookupError("no network today")

    for number, (kind, servers) in enumerate((("local_sgd", {}), ("async", {"servers": 1}))):
        with pytest.raises((LookupError, sl.Error), match="no network today"):
            sl.train.Trainer(fails, made_job(tmp_path / f"fails{number}", kind, **servers), quiet=True).fit()
        with pytest.raises((TypeError, sl.Error), match="expected a network, or a function that makes one, got int"):
            sl.train.Trainer(lambda: 5, made_job(tmp_path / f"wrong{number}", kind, **servers), quiet=True).fit()
    net = sl.nn.Linear(2, 2)
    with pytest.raises(TypeError, match="expected a network, or beside a job a function that makes one, got Made"):
        sl.train.Trainer(Made(), sl.optim.SGD(net.parameters(), lr=0.1), quiet=True)
    assert "not made yet" in sl.train.Trainer(Made(), made_job(tmp_path, "bmuf"), quiet=True)._repr_html_()


MADE_BY_PROCESSES = """
    import json, os, pathlib, sys
    sys.path.insert(0, {tests!r})
    import starling as sl
    from test_strategies import Made, made_job
    make = Made()
    trainer = sl.train.Trainer(make, made_job({folder!r}, "async", servers=1), quiet=True)
    accuracy = trainer.fit()["metrics"].get("test_accuracy")
    told = [int(os.environ["STARLING_RANK"]), int(os.environ["STARLING_WORLD"]), accuracy, len(make.nets)]
    pathlib.Path(sys.argv[1], f"rank{{told[0]}}").write_text(json.dumps(told))
"""


def test_processes_make_their_networks_beside_servers(tmp_path):
    if not starling_program():
        pytest.skip("STARLING_PROGRAM does not name the program `starling`")
    program = MADE_BY_PROCESSES.format(tests=os.path.dirname(os.path.abspath(__file__)), folder=str(tmp_path / "run"))
    told = told_by_ranks([starling_program(), "launch", "-n", "3", "--"], tmp_path, program)
    assert [nets for *_, nets in told] == [2, 1, 1]  # the leader has a worker beside it; the last is the server
    assert told[0][2] > 0.6


def own_job(folder, kind, **distribute):
    return {
        "data": {"name": "synthetic", "shape": [4], "classes": 2, "train_samples": 64},
        "optimizer": {"name": "sgd", "lr": 0.1},
        "train": {"folder": str(folder)},
        "distribute": {"strategy": kind, **distribute},
    }
