"""Options of strategies come from the registry: meshes and layouts, zero, codecs, as jobs name them."""

import numpy as np
import pytest

import starling as sl
from ranks import starling_program, told_by_ranks

PROGRAM = """
    import json, pathlib, sys, numpy as np, starling as sl
    options = {options}
    sl.dist.init()
    rank, size = sl.dist.rank(), sl.dist.size()
    sl.manual_seed(4 + rank)                                # begin() gives all of them rank 0's
    class Net(sl.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1, self.fc2 = sl.nn.Linear(6, 8), sl.nn.Linear(8, 3)
        def forward(self, x):
            return self.fc2(self.fc1(x).relu())
    net = Net()
    optimizer = sl.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    strategy = sl.dist.allreduce(**(options if size > 1 else {{}})).begin(net, optimizer)
    def step(x, y):
        loss = sl.cross_entropy(net(x), y); loss.backward(); optimizer.step(); return loss
    step = sl.compile(step, strategy=strategy)
    generator = np.random.default_rng(0)
    data = generator.normal(size=(48, 6)).astype(np.float32), generator.integers(0, 3, 48)
    losses = []
    for epoch in range(3):
        for x, y in sl.data.Loader(data, batch=16, rank=strategy.data_rank, ranks=strategy.data_ranks): losses.append(step(x, y).item())
    told = [rank, size, strategy.data_ranks, losses]
    pathlib.Path(sys.argv[1], f"rank{{rank}}").write_text(json.dumps(told))
"""

LAYOUT = {"fc1": {"model": "columns"}, "fc2": {"model": "rows"}}


@pytest.mark.parametrize(
    ("options", "data_ranks"),
    [({"mesh": {"data": 1, "model": 2}, "layout": LAYOUT}, 1), ({"zero": 1}, 2), ({}, 2)],
    ids=["mesh", "zero", "plain"],
)
def test_two_ranks_train_as_one_whatever_they_share(options, data_ranks, tmp_path):
    if not starling_program():
        pytest.skip("STARLING_PROGRAM does not name the program `starling`")
    program = PROGRAM.format(options=options)
    ((_, _, _, alone),) = told_by_ranks([], tmp_path, program)
    told = told_by_ranks([starling_program(), "launch", "-n", "2", "--"], tmp_path, program)
    for _, _, ranks, losses in told:
        assert ranks == data_ranks
        np.testing.assert_allclose(losses, alone, rtol=1e-4)


def test_a_mesh_of_two_by_two_trains_as_one(tmp_path):
    if not starling_program():
        pytest.skip("STARLING_PROGRAM does not name the program `starling`")
    program = PROGRAM.format(options={"mesh": {"data": 2, "model": 2}, "layout": LAYOUT})
    ((_, _, _, alone),) = told_by_ranks([], tmp_path, program)
    told = told_by_ranks([starling_program(), "launch", "-n", "4", "--"], tmp_path, program)
    assert [ranks for _, _, ranks, _ in told] == [2] * 4
    for *_, losses in told:
        np.testing.assert_allclose(losses, alone, rtol=1e-4)


def test_wrong_options_of_strategies_are_refused_by_name():
    for options, text in (({"mesh": {"data": 3}}, "mesh|3"), ({"layuot": "fsdp"}, "did you mean 'layout'"), ({"codec": "fp61"}, "fp16")):
        with pytest.raises((sl.Error, TypeError), match=text):
            sl.dist.allreduce(**options)
    assert "layout" in sl.dist.allreduce.__doc__
