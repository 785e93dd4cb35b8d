"""A GPU's memory shared with PyTorch, without a copy, in the order of streams. Needs a build with CUDA and a GPU: skipped elsewhere.

    PYTHONPATH=build/python/build python -m pytest -q -rs python/tests/test_gpu.py
"""

import gc
import importlib.util

import numpy as np
import pytest

import starling as sl


def gpu():
    try:
        sl.ones(1).to("cuda:0")
        return True
    except sl.Error:
        return False


pytestmark = pytest.mark.skipif(not gpu(), reason="no GPU, or a build without CUDA")


def torch():
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    import torch

    if not torch.cuda.is_available():
        pytest.skip("this torch has no CUDA")
    return torch


def test_our_own_memory_goes_round():
    x = sl.arange(6, dtype="f32").to("cuda:0")
    assert x.__dlpack_device__() == (2, 0)
    for asked in ({}, {"stream": None}, {"stream": 1}, {"stream": 2}, {"stream": -1}, {"max_version": (1, 0)}):
        assert "dltensor" in repr(x.__dlpack__(**asked))
    with pytest.raises(ValueError, match="stream"):
        x.__dlpack__(stream=0)
    same = sl.from_dlpack(x)
    assert str(same.device) == str(x.device)
    x.assign(x * 2)
    assert same.tolist() == [0, 2, 4, 6, 8, 10]  # one memory
    other = sl.from_dlpack(x, copy=True)
    x.assign(x * 2)
    assert other.tolist() == [0, 2, 4, 6, 8, 10]
    assert sl.from_dlpack(x, device="cpu").numpy().tolist() == [0, 4, 8, 12, 16, 20]
    assert str(sl.from_dlpack(np.ones(3, np.float32), device="cuda:0").device) == str(x.device)
    with pytest.raises(ValueError, match="copy=True or None"):
        sl.from_dlpack(x, device="cpu", copy=False)
    assert np.from_dlpack(sl.from_dlpack(x, device="cpu")).sum() == 60
    assert "dltensor_versioned" in repr(x.__dlpack__(dl_device=(1, 0), max_version=(1, 0)))
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(1, 0), copy=False)


def test_memory_is_shared_with_torch_both_ways():
    t = torch()
    theirs = t.arange(6.0, device="cuda").reshape(2, 3)
    ours = sl.from_dlpack(theirs)
    assert ours.shape == (2, 3) and ours.tolist() == [[0, 1, 2], [3, 4, 5]]
    theirs += 1
    t.cuda.synchronize()
    assert ours.tolist() == [[1, 2, 3], [4, 5, 6]]
    back = t.from_dlpack(ours * 2)
    assert back.device.type == "cuda" and back.tolist() == [[2, 4, 6], [8, 10, 12]]
    for name in ("float32", "float16", "bfloat16", "int64", "int32", "uint8", "bool"):
        x = t.ones(5, device="cuda").to(getattr(t, name))
        assert t.equal(t.from_dlpack(sl.from_dlpack(x)), x), name


def test_work_of_other_streams_is_waited_for():
    """Values made in a stream that waits for nobody, and used in one: long work before, or values would be of another moment."""
    t = torch()
    big = t.randn(4096, 4096, device="cuda")
    for _ in range(5):
        stream = t.cuda.Stream()
        with t.cuda.stream(stream):
            x = big
            for _ in range(20):
                x = (x @ big) * 1e-3
            theirs = t.full((1 << 20,), 3.0, device="cuda") + 0 * x.sum()
            ours = sl.from_dlpack(theirs)  # asks for the default stream: it waits for theirs
        assert (ours + 1).sum().item() == pytest.approx(4.0 * (1 << 20), rel=1e-5)
        y = sl.full((1 << 20,), 1.0).to("cuda:0")
        m = sl.full((2048, 2048), 1 / 2048).to("cuda:0")
        for _ in range(20):
            m = m @ m
        result = y + 0 * m.sum()
        with t.cuda.stream(stream):
            assert t.from_dlpack(result).sum().item() == pytest.approx(1 << 20, rel=1e-5)


def test_memory_outlives_its_owner_on_both_sides():
    t = torch()
    kept = []
    for i in range(20):
        theirs = t.full((1 << 20,), float(i), device="cuda")
        kept.append((i, sl.from_dlpack(theirs), t.from_dlpack(sl.full((1 << 20,), float(i)).to("cuda:0"))))
        del theirs
    gc.collect()
    trash = [t.full((1 << 20,), -1.0, device="cuda") for _ in range(40)]
    for i, ours, back in kept:
        assert ours.sum().item() == i * (1 << 20) and float(back.sum()) == i * (1 << 20)
    del trash


def test_a_compiled_step_reads_a_tensor_of_torch():
    t = torch()
    net = sl.nn.Linear(8, 2)
    net.to("cuda:0")
    optimizer = sl.optim.SGD(net.parameters(), lr=0.1)

    @sl.compile
    def step(x, y):
        loss = sl.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    x, y = t.randn(16, 8, device="cuda"), t.randint(0, 2, (16,), device="cuda")
    losses = [step(sl.from_dlpack(x), sl.from_dlpack(y)).item() for _ in range(20)]
    assert losses[-1] < losses[0]


def test_numbers_gradients_and_random_draws_follow_the_tensors():
    x = sl.arange(6, dtype="f32").reshape(2, 3).to("cuda:0")
    assert (0.5 * x.sum()).item() == 7.5 and (sl.tensor(2.0) * x).tolist() == [[0, 2, 4], [6, 8, 10]]
    with pytest.raises(sl.Error, match="expected all operands on one device"):
        x + sl.ones(2, 3)
    net = sl.zoo.lenet(classes=10)
    net.to("cuda:0")
    pictures, labels = sl.randn(8, 1, 28, 28).to("cuda:0"), sl.zeros(8, dtype="i64").to("cuda:0")
    sl.cross_entropy(net(pictures), labels).backward()
    assert all(str(p.grad.device) == "cuda:0" for p in net.parameters())
    sl.manual_seed(5)
    there = sl.dropout(x, 0.5).tolist()
    sl.manual_seed(5)
    assert there == sl.dropout(x.to("cpu"), 0.5).tolist()
    assert str(sl.randn(3).device) == "cpu:0"
