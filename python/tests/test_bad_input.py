"""Wrong input of every kind: a Python exception each, nothing crashes, nothing is left behind."""

import gc
import sys

import numpy as np
import pytest

import starling as sl
from memory import resident
from ranks import run_script

HUGE = 1 << 45


@pytest.mark.parametrize(
    "make",
    [
        lambda: sl.zeros((HUGE,)),
        lambda: sl.ones((HUGE, HUGE)),
        lambda: sl.empty((1 << 62, 4)),
        lambda: sl.zeros(-1),
        lambda: sl.zeros((2, -3)),
        lambda: sl.zeros("ab"),
        lambda: sl.zeros(2.5),
        lambda: sl.zeros((1,) * 9),
        lambda: sl.broadcast_to(sl.ones(1), (HUGE, HUGE)) + 1,
        lambda: sl.ones(2).reshape(HUGE, HUGE),
        lambda: sl.tile(sl.ones(2), (HUGE,)),
        lambda: sl.repeat(sl.ones(2), HUGE),
        lambda: sl.arange(0, 1e18),
        lambda: sl.arange(0, 1, 0),
        lambda: sl.eye(HUGE),
        lambda: sl.one_hot(sl.tensor([1]), HUGE),
        lambda: sl.nn.Linear(HUGE, HUGE),
        lambda: sl.nn.Conv2d(1, 1, kernel=0),
        lambda: sl.linspace(0, 1, -2),
    ],
)
def test_sizes_that_nothing_can_have_are_errors(make):
    with pytest.raises((sl.Error, TypeError, ValueError, MemoryError, OverflowError)):
        make()


class Lies:
    """Claims to be an array."""

    def __init__(self, **claims):
        self.__dict__.update(claims)


class Raises:
    @property
    def __dlpack__(self):
        raise ValueError("no capsule today")


class WrongCapsule:
    def __dlpack__(self, **keywords):
        return "not a capsule"

    def __dlpack_device__(self):
        return (1, 0)


class WrongArray:
    def __array__(self, dtype=None, copy=None):
        return "not an array"


@pytest.mark.parametrize(
    "given",
    [None, object(), "text", b"bytes", {1: 2}, {1, 2}, 1j, [1, "a"], [[1], [2, 3]], [1, None], Lies(shape=(2,)), Raises(), WrongCapsule(),
     WrongArray(), np.array(["a", "b"]), np.array([1j]), np.array([object()]), np.array([(1, 2.0)], dtype="i4,f4"), np.datetime64("2020-01-01"),
     np.zeros((1,) * 12), float, sl, lambda: 1, range(3).__iter__()],
    ids=lambda given: type(given).__name__,
)  # fmt: skip
def test_a_value_that_is_no_tensor_is_an_error(given):
    for use in (sl.tensor, sl.asarray, lambda x: sl.ones(2) + x, lambda x: sl.relu(x), lambda x: sl.matmul(sl.ones((2, 2)), x)):
        with pytest.raises((TypeError, ValueError, OverflowError, sl.Error)):
            use(given)


def test_integers_that_no_dtype_has_are_overflows():
    for make in (lambda: sl.tensor(1 << 70), lambda: sl.tensor([1 << 70]), lambda: sl.ones(1, "i64") + (1 << 70), lambda: sl.full(1, 10**400)):
        with pytest.raises((OverflowError, TypeError)):
            make()


BEYOND = [
    ([300], "u8"), ([-1], "u8"), ([128], "i8"), ([-129], "i8"), ([1 << 15], "i16"), ([1 << 16], "u16"), ([1 << 31], "i32"), ([-(1 << 31) - 1], "i32"),
    ([1 << 32], "u32"), ([1 << 63], "i64"), ([-(1 << 63) - 1], "i64"), ([1 << 64], "u64"), ([-1], "u64"), ([1e30], "i64"), ([300.0], "u8"),
    ([[1, 2], [3, float("inf")]], "i32"), ([-float("inf")], "u64"),
]  # fmt: skip


@pytest.mark.parametrize("values, dtype", BEYOND, ids=lambda given: str(given))
def test_numbers_that_a_dtype_does_not_have_are_overflows(values, dtype):
    while isinstance(values, list):
        with pytest.raises(OverflowError, match=rf"expected a number that {dtype} has, got"):
            sl.tensor(values, dtype)
        values = values[-1]
    with pytest.raises(OverflowError, match=rf"expected a number that {dtype} has, got"):
        sl.tensor(values, dtype)


@pytest.mark.parametrize("values, dtype", BEYOND, ids=lambda given: str(given))
def test_full_refuses_numbers_that_its_dtype_does_not_have(values, dtype):
    while isinstance(values, list):
        values = values[-1]
    like = sl.zeros((2,), dtype)
    numpys = [np.float64(values)] if isinstance(values, float) else [np.int64(values)] if abs(values) < 1 << 63 else []
    for value in (values, *numpys):
        for make in (lambda: sl.full((2,), value, dtype), lambda: sl.full_like(like, value)):
            with pytest.raises(OverflowError, match=rf"expected a number that {dtype} has, got"):
                make()


def test_full_keeps_integers_to_the_bit():
    odd = (1 << 53) + 1
    assert sl.full((2,), odd, "i64").tolist() == [odd] * 2 and sl.full((), (1 << 64) - 1, "u64").item() == (1 << 64) - 1
    assert sl.full((2, 1), np.int64(-odd), "i64").tolist() == [[-odd]] * 2 and sl.full_like(sl.ones(2, "i64"), odd).tolist() == [odd] * 2
    assert sl.full((0,), odd, "i64").shape == (0,) and sl.full((2,), 2.9, "i32").tolist() == [2, 2]
    assert sl.full((2,), np.float32(0.5)).tolist() == [0.5] * 2 and sl.full((2,), True, "bool").tolist() == [True] * 2
    assert sl.compile(lambda x: x + sl.full((2,), odd, "i64"))(np.array([0, 1])).tolist() == [odd, odd + 1]
    for wrong in (None, "1", [1], object()):
        with pytest.raises(TypeError):
            sl.full((2,), wrong, "u8")


def test_what_is_no_number_is_no_integer():
    for dtype in ("i64", "i32", "u8", "u64"):
        for given in (float("nan"), [1.0, float("nan")]):
            with pytest.raises(ValueError, match=f"{dtype} has, got nan"):
                sl.tensor(given, dtype)
    assert sl.tensor([float("nan"), 1.0]).dtype == sl.f32 and sl.tensor([0.0, float("nan")], "bool").tolist() == [False, True]


def test_the_outermost_numbers_of_a_dtype_are_kept_to_the_bit():
    for bits in (8, 16, 32, 64):
        for dtype, least, most in ((f"i{bits}", -(1 << bits - 1), (1 << bits - 1) - 1), (f"u{bits}", 0, (1 << bits) - 1)):
            assert sl.tensor([least, most, 1], dtype).tolist() == [least, most, 1], dtype
            assert (sl.tensor(least, dtype).item(), sl.tensor(most, dtype).item()) == (least, most), dtype
    odd = (1 << 53) + 1  # what a double does not hold
    assert sl.tensor([odd, -odd]).tolist() == [odd, -odd] and sl.tensor(odd, "u64").item() == odd
    assert sl.tensor([2.9, -2.9], "i32").tolist() == [2, -2]  # cut off, as in NumPy


def test_arrays_of_any_strides_are_read_as_numpy_reads_them():
    base = np.arange(240, dtype=np.float32).reshape(4, 5, 12)
    as_strided = np.lib.stride_tricks.as_strided
    for array in (
        base[::-1], base[:, ::-2], base[..., ::-3], base[1:3, ::2, 1::4], base.T, np.swapaxes(base, 0, 1), base[:0], base[:, :, :0],
        np.broadcast_to(base[:1], (3, 5, 12)), np.broadcast_to(np.float32(2), (3, 4)), as_strided(base, (3, 3), (4, 4)),
        np.sliding_window_view(base[0, 0], 4) if hasattr(np, "sliding_window_view") else base, np.float32(3), np.array(3.0),
        base.astype(">f4"), base.astype("f8")[::-1], np.frombuffer(b"\0" * 17, np.uint8)[1:].view(np.float32), base.astype("?")[::2],
        np.asfortranarray(base),
    ):  # fmt: skip
        for make in (sl.tensor, sl.asarray, sl.from_numpy):
            made = make(array) if make is not sl.from_numpy or isinstance(array, np.ndarray) else sl.tensor(array)
            np.testing.assert_array_equal(made.numpy(), array)
            np.testing.assert_array_equal((made + made).numpy(), np.asarray(array) + np.asarray(array))


def test_read_only_and_overlapping_memory_is_not_written():
    array = np.arange(4, dtype=np.float32)
    array.flags.writeable = False
    shared = sl.from_numpy(array)
    for write in (lambda: shared.__setitem__(0, 1.0), lambda: shared.assign(sl.zeros(4)), lambda: shared.__iadd__(1)):
        with pytest.raises((sl.Error, ValueError)):
            write()
    assert array.tolist() == [0, 1, 2, 3] and not shared.numpy().flags.writeable
    with pytest.raises(ValueError):
        shared.numpy()[0] = 1
    frozen = sl.from_numpy(np.frombuffer(b"\0\0\x80\x3f" * 2, np.float32))
    with pytest.raises((sl.Error, ValueError)):
        frozen[0] = 5.0


def test_memory_that_was_handed_out_lives_as_long_as_anyone_has_it():
    made = sl.normal((1000,))
    want = made.numpy().copy()
    views = [made.numpy(), np.from_dlpack(made), np.asarray(made)[10:], sl.from_dlpack(made), memoryview(made.numpy())]
    del made
    gc.collect()
    trash = [np.ones(1000, np.float32) for _ in range(100)]
    for view in views:
        np.testing.assert_array_equal(np.asarray(view), want[10:] if len(view) == 990 else want)
    del trash, views


def test_capsules_that_nobody_took_are_given_back():
    made = sl.ones(1 << 20)
    before = sys.getrefcount(made)
    for _ in range(200):
        made.__dlpack__()  # 4 MB each, were they copies or kept
        made.__dlpack__(max_version=(1, 0))
    gc.collect()
    assert sys.getrefcount(made) == before


def test_exceptions_inside_callbacks_come_out_as_they_are():
    class Mine(Exception):
        pass

    def fails(*_):
        raise Mine("here")

    x, y = np.ones((8, 2), np.float32), np.zeros(8, np.int64)
    net = sl.nn.Linear(2, 2)
    optimizer = sl.optim.SGD(net.parameters(), lr=0.1)
    leaf = sl.ones(2).requires_grad_()
    leaf.register_hook(fails)

    class Data:
        def __len__(self):
            return 4

        def __getitem__(self, i):
            return fails() if i == 3 else np.float32(i)

    class Calls:
        begin = fails

    for ask in (
        lambda: sl.compile(fails)(sl.ones(1)),
        lambda: sl.grad(fails)(sl.ones(1)),
        lambda: (leaf * 2).sum().backward(),
        lambda: sl.cond(sl.tensor(True), fails, fails),
        lambda: sl.while_loop(fails, lambda s: s, sl.tensor(1)),
        lambda: sl.scan(fails, sl.tensor(1.0), sl.ones(3)),
        lambda: sl.recompute(fails, sl.ones(1)),
        lambda: sl.train.Trainer(net, optimizer, callbacks=[Calls()], quiet=True).fit((x, y)),
        lambda: sl.train.Trainer(net, optimizer, fails, quiet=True).fit((x, y)),
        lambda: list(sl.data.Loader(map(fails, [1]), batch=1)),
        lambda: list(sl.data.Loader([1, 2], batch=1, transform=fails)),
    ):
        with pytest.raises(Mine, match="here"):
            ask()
    with pytest.raises(sl.Error, match="(?s)sample 3.*Mine"):
        list(sl.data.Loader(Data(), batch=1, shuffle=False))
    sl.train.Trainer(net, optimizer, quiet=True).fit((x, y))  # all of it still works


INTERRUPTED = """
    import signal, sys, threading, time, os, numpy as np, starling as sl
    def soon(): time.sleep(0.3); os.kill(os.getpid(), signal.SIGINT)
    big = sl.normal((600, 600))
    step = sl.compile(lambda x: (x @ x).tanh())
    step(big)
    threading.Thread(target=soon, daemon=True).start()
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until: big = step(big)
        sys.exit("not interrupted")
    except KeyboardInterrupt:
        pass
    assert np.isfinite(step(big).numpy()).all()       # the program is as good as before
    threading.Thread(target=soon, daemon=True).start()
    try:
        for batch in sl.data.Loader(iter(lambda: np.float32(1), 0), batch=4, workers=2): pass
        sys.exit("not interrupted")
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


def test_ctrl_c_in_a_step_is_a_keyboard_interrupt(tmp_path):
    done = run_script(INTERRUPTED, tmp_path)
    assert done.returncode == 0 and done.stdout.strip() == "interrupted", done.stdout + done.stderr


def mistakes():
    bad = np.arange(6).reshape(2, 3)[::-1]
    for ask in (
        lambda: sl.tensor(object()),
        lambda: sl.ones(1000) @ sl.ones(999),
        lambda: sl.ones(3)[7],
        lambda: sl.from_numpy(bad)["x"],
        lambda: sl.zeros((HUGE,)),
        lambda: sl.compile(lambda x: x.nothing)(sl.ones(1000)),
        lambda: sl.grad(lambda x: 1 / 0)(sl.ones(1000)),
        lambda: sl.nn.Linear(2, 2)(sl.ones((1000, 3))),
        lambda: sl.op.conv2d(sl.ones((1, 1, 4, 4)), sl.ones((1, 2, 3, 3))),
    ):
        try:
            ask()
        except Exception:
            continue
        raise AssertionError("no error")


def test_mistakes_leave_nothing_behind():
    for _ in range(300):
        mistakes()
    gc.collect()
    before, objects = resident(), len(gc.get_objects())
    for _ in range(1500):
        mistakes()
    gc.collect()
    assert len(gc.get_objects()) - objects < 200
    assert resident() - before < 8 << 20


FREE_THREADED = """
    import sysconfig
    plain = sysconfig.get_config_var
    sysconfig.get_config_var = lambda name: 1 if name == "Py_GIL_DISABLED" else plain(name)
    try:
        import starling
    except ImportError as error:
        print(error)
"""


def test_a_free_threaded_python_is_refused_by_name(tmp_path):
    done = run_script(FREE_THREADED, tmp_path)
    assert "free-threaded" in done.stdout and "plain build" in done.stdout, done.stdout + done.stderr


def test_the_first_axis_to_flatten_is_one_of_the_tensors():
    x = sl.ones((2, 3, 4))
    assert x.flatten(-2).shape == (2, 12) and x.flatten(3).shape == (2, 3, 4, 1) and sl.ones(()).flatten(0).shape == (1,)
    for first in (-4, 4, -(1 << 31), (1 << 31) - 1):
        with pytest.raises(sl.Error, match="expected a first axis from -3 to 3"):
            x.flatten(first)


def test_a_reduction_by_a_word_that_is_none_is_refused_with_those_that_are():
    x = sl.tensor([1.0, 2.0])
    assert sl.op.all_reduce(x, reduce="max").tolist() == sl.dist.all_reduce(x, "max").tolist() == [1.0, 2.0]
    for call in (lambda: sl.dist.all_reduce(x, "median"), lambda: sl.op.all_reduce(x, reduce="median")):
        with pytest.raises((ValueError, sl.Error), match="expected sum, mean, max, min or product for reduce, got 'median'"):
            call()
