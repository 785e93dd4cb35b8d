"""Every strategy that jobs name, from Python: those of equal ranks in a Trainer, those with parameter servers as jobs."""

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


def own_job(folder, kind, **distribute):
    return {
        "data": {"name": "synthetic", "shape": [4], "classes": 2, "train_samples": 64},
        "optimizer": {"name": "sgd", "lr": 0.1},
        "train": {"folder": str(folder)},
        "distribute": {"strategy": kind, **distribute},
    }
