"""Options of strategies come from the registry: meshes and layouts, zero, codecs, as jobs name them."""

import pickle

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


LINE = """
    import json, pathlib, sys, numpy as np
    import starling as sl
    X = np.random.default_rng(0).normal(size=(16, 6)).astype(np.float32)
    Y = np.arange(16) % 3
    sl.manual_seed(4)
    net = sl.nn.Sequential(sl.nn.Linear(6, 8), sl.nn.Tanh(), sl.nn.Linear(8, 3))
    opt = sl.optim.Adam(net.parameters(), lr=0.05)
    def f(x, y):
        loss = sl.cross_entropy(net(x), y); loss.backward(); opt.step(); return loss
    if ALONE:
        losses = [f(X, Y).item() for _ in range(3)]
        rank, size = 0, 1
    else:
        sl.dist.init(); step = sl.compile(f, strategy=sl.dist.allreduce(mesh={"data": 2, "model": 2}))
        rank, size = sl.dist.rank(), sl.dist.size()
        mine = slice(rank // 2 * 8, rank // 2 * 8 + 8)           # data is the outer axis
        losses = [step(X[mine], Y[mine]).item() for _ in range(3)]
    pathlib.Path(sys.argv[1], f"{rank}").write_text(json.dumps([rank, size, losses]))
"""


def test_the_line_with_a_mesh_needs_neither_a_layout_nor_begin(tmp_path):
    if not starling_program():
        pytest.skip("STARLING_PROGRAM does not name the program `starling`")
    ((_, _, want),) = told_by_ranks([], tmp_path, LINE.replace("ALONE", "True"))
    told = told_by_ranks([starling_program(), "launch", "-n", "4", "--"], tmp_path, LINE.replace("ALONE", "False"))
    assert len(told) == 4
    for _, _, losses in told:
        np.testing.assert_allclose(losses, want, rtol=1e-5)


X, Y = np.random.default_rng(0).normal(size=(16, 6)).astype(np.float32), np.arange(16) % 3


def stepped(options, begins=False, rows=None):
    """What three steps of a rank give, or the error that they end in."""
    sl.manual_seed(4)
    net = sl.nn.ModuleDict({"fc1": sl.nn.Linear(6, 8), "fc2": sl.nn.Linear(8, 3)})
    optimizer = sl.optim.Adam(net.parameters(), lr=0.05)

    def f(x, y):
        loss = sl.cross_entropy(net["fc2"](net["fc1"](x).tanh()), y)
        loss.backward()
        optimizer.step()
        return loss

    strategy = sl.dist.allreduce(**options)
    step = sl.compile(f, strategy=strategy)
    if begins:
        strategy.begin(net, optimizer)  # between compile() and the first call will do
    rank, ranks = rows() if rows else (strategy.data_rank, strategy.data_ranks)
    mine = slice(16 * rank // ranks, 16 * (rank + 1) // ranks)
    try:
        return [step(X[mine], Y[mine]).item() for _ in range(3)]
    except sl.Error as error:
        again = pytest.raises(sl.Error, step, X[mine], Y[mine])  # as often as it is tried
        return str(error) if str(again.value).partition("] ")[2] == str(error).partition("] ")[2] else "another"


MESH = {"mesh": {"data": 2, "model": 2}}


@pytest.mark.parametrize("options", [{"zero": 1}, {"zero": 3}, {**MESH, "zero": 2}, {**MESH, "layout": LAYOUT}, {"layout": "fsdp"}], ids=str)
def test_state_in_pieces_needs_begin_and_says_so(options):
    (alone,) = sl.dist.spawn(stepped, 1, {})
    for told in sl.dist.spawn(stepped, 4, options):
        assert "expected strategy.begin(net, optimizer) before the first step" in told
    for losses in sl.dist.spawn(stepped, 4, options, True):
        np.testing.assert_allclose(losses, alone, rtol=1e-4)
    (one,) = sl.dist.spawn(stepped, 1, {"zero": 1})  # one rank has all of it
    assert one == alone


TOUCHES = {
    "op": lambda net, weight, optimizer: weight + 1,
    "operand": lambda net, weight, optimizer: sl.ones((2, 3)) @ weight,
    "call": lambda net, weight, optimizer: net(sl.ones((2, 4))),
    "gradient": lambda net, weight, optimizer: (weight * 2).sum().backward(),
    "numpy": lambda net, weight, optimizer: np.exp(weight),
    "array": lambda net, weight, optimizer: weight.detach().numpy(),
    "dlpack": lambda net, weight, optimizer: weight.detach().__dlpack__(),
    "text": lambda net, weight, optimizer: repr(weight),
    "dtype": lambda net, weight, optimizer: net.to("f16"),
    "assign": lambda net, weight, optimizer: weight.assign(sl.ones((3, 4))),
    "write": lambda net, weight, optimizer: weight.detach().__setitem__(0, 1.0),
    "init": lambda net, weight, optimizer: sl.nn.init.zeros_(weight),
    "mask": lambda net, weight, optimizer: weight[weight > 0],
    "load": lambda net, weight, optimizer: net.load_state_dict({name: sl.zeros(one.shape) for name, one in net.state_dict().items()}),
    "save": lambda net, weight, optimizer: sl.save(net.state_dict(), "state.safetensors"),
    "pickle": lambda net, weight, optimizer: pickle.dumps(net),
    "state": lambda net, weight, optimizer: optimizer.load_state_dict({k: sl.zeros(v.shape, v.dtype) for k, v in optimizer.state_dict().items()}),
    "step": lambda net, weight, optimizer: (setattr(weight, "grad", sl.ones((3, 4))), optimizer.step()),
    "program": lambda net, weight, optimizer: sl.compile(net)(sl.ones((2, 4))),
}


@pytest.mark.parametrize("name", TOUCHES)
def test_what_touches_weights_in_pieces_is_refused_by_name(name):
    def rank():
        net = sl.nn.Linear(4, 3)
        optimizer = sl.optim.Adam(net.parameters(), lr=0.1)
        sl.dist.allreduce(zero=3).begin(net, optimizer)
        with pytest.raises(sl.Error, match="every rank stores a piece"):
            TOUCHES[name](net, net.weight, optimizer)

    sl.manual_seed(1)
    sl.dist.spawn(rank, 2)


def test_ranks_that_share_a_model_are_told_of_other_rows():
    for told in sl.dist.spawn(stepped, 4, MESH, False, lambda: (sl.dist.rank(), sl.dist.size())):
        assert "expected the same rows on ranks 0 and 1" in told and "rank=strategy.data_rank" in told


def test_wrong_options_of_strategies_are_refused_by_name():
    for options, text in (({"mesh": {"data": 3}}, "mesh|3"), ({"layuot": "fsdp"}, "did you mean 'layout'"), ({"codec": "fp61"}, "fp16"), ({"layout": "fsdpp"}, r"^\[allreduce\] expected .* for layout")):
        with pytest.raises((sl.Error, TypeError), match=text):
            sl.dist.allreduce(**options)
    assert "layout" in sl.dist.allreduce.__doc__
