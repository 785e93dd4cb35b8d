"""torch and starling in one process, imported in either order: two OpenMP runtimes, two thread pools, memory shared by DLPack."""

import importlib.util

import pytest

from ranks import run_script

ORDERS = ["import torch, starling as sl", "import starling as sl, torch"]

TOGETHER = """
    {imports}
    import numpy as np, threading
    # Both compute on all their threads, in turns and at once.
    a, b = torch.randn(500, 500), sl.normal((500, 500))
    def torchs(): return [float((a @ a).relu().sum()) for _ in range(20)]
    program = sl.compile(lambda x: (x @ x).relu().sum())
    def starlings(): return [program(b).item() for _ in range(20)]
    alone = torchs()[0], starlings()[0]
    results = {{}}
    threads = [threading.Thread(target=lambda: results.update(t=torchs())), threading.Thread(target=lambda: results.update(s=starlings()))]
    [t.start() for t in threads]; [t.join(100) for t in threads]
    assert set(results["t"]) == {{alone[0]}} and set(results["s"]) == {{alone[1]}}, "results differ beside each other"
    # No copy, both ways, and each keeps the other's memory alive.
    t = torch.arange(6.0).reshape(2, 3)
    s = sl.from_dlpack(t)
    t[0, 0] = 7
    assert s[0, 0].item() == 7 and s.shape == (2, 3)
    del t
    back = torch.from_dlpack(s)
    s[1, 2] = 9
    assert back[1, 2] == 9
    del s
    assert back.tolist() == [[7, 1, 2], [3, 4, 9]]
    assert torch.equal(torch.from_dlpack(sl.asarray(torch.ones(3, 4).T)), torch.ones(4, 3))    # strides are kept
    for name in ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"):
        x = torch.ones(3).to(getattr(torch, name))
        assert sl.from_dlpack(x).dtype == name.replace("bool", "bool_"), name
        assert torch.equal(torch.from_dlpack(sl.from_dlpack(x)), x), name
    # Gradients of one are functions of the other's values.
    x = torch.randn(4, 3, requires_grad=True)
    y = torch.from_numpy(np.arange(4) % 3)
    torch.nn.functional.cross_entropy(x, y).backward()
    ours = sl.grad(lambda z: sl.cross_entropy(z, sl.from_dlpack(y)))(sl.from_dlpack(x.detach()))
    assert np.allclose(x.grad.numpy(), ours.numpy(), atol=1e-6)
    # A training loop of each, interleaved.
    theirs, net = torch.nn.Linear(8, 2), sl.nn.Linear(8, 2)
    net.load_state_dict({{"weight": theirs.weight.detach().numpy(), "bias": theirs.bias.detach().numpy()}})
    opt, rule = torch.optim.SGD(theirs.parameters(), lr=0.1), sl.optim.SGD(net.parameters(), lr=0.1)
    @sl.compile
    def step(x, y):
        loss = sl.cross_entropy(net(x), y); loss.backward(); rule.step(); return loss
    for i in range(20):
        x, y = torch.randn(16, 8), torch.randint(0, 2, (16,))
        loss = torch.nn.functional.cross_entropy(theirs(x), y)
        opt.zero_grad(); loss.backward(); opt.step()
        assert abs(step(sl.from_dlpack(x), sl.from_dlpack(y)).item() - loss.item()) < 1e-5
    print("together", flush=True)
"""


@pytest.mark.tools
@pytest.mark.parametrize("imports", ORDERS)
def test_torch_and_starling_live_in_one_process(imports, tmp_path):
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    done = run_script(TOGETHER.format(imports=imports), tmp_path, seconds=300)
    assert done.returncode == 0 and done.stdout.strip().endswith("together"), done.stdout + done.stderr
    assert "libgomp" not in done.stderr and "OMP" not in done.stderr, done.stderr
