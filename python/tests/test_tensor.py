"""Tensors: what goes in comes out, in every dtype, and operators mean what NumPy means."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

import starling as sl
from ranks import run_script

DTYPES = ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_come_back_as_they_were(dtype):
    array = np.array([[0, 1, 2], [3, 4, 5]]).astype(dtype)
    tensor = sl.tensor(array)
    assert tensor.shape == (2, 3) and tensor.dtype == dtype
    assert tensor.numpy().dtype == array.dtype
    np.testing.assert_array_equal(tensor.numpy(), array)
    assert tensor.tolist() == array.tolist()


def test_big_integers_keep_their_digits():
    big = 2**62 + 1
    assert sl.tensor(big).item() == big
    assert sl.tensor([big, -big]).tolist() == [big, -big]


def test_tensor_copies_and_from_numpy_shares():
    array = np.zeros(3, np.float32)
    copied, shared = sl.tensor(array), sl.from_numpy(array)
    array[0] = 7
    assert copied.tolist() == [0, 0, 0]
    assert shared.tolist() == [7, 0, 0]
    shared[1] = 5
    assert array.tolist() == [7, 5, 0]


def test_shared_memory_outlives_the_array_and_is_given_back():
    array = np.arange(4, dtype=np.float32)
    gone = weakref.ref(array)
    tensor = sl.from_numpy(array)
    del array
    gc.collect()
    assert tensor.tolist() == [0, 1, 2, 3]
    view = tensor.numpy()
    del tensor
    gc.collect()
    assert view.tolist() == [0, 1, 2, 3] and gone() is not None
    del view
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("make", [lambda a: a[::-1], lambda a: a[::2], lambda a: a.T, lambda a: a[:, ::-1], lambda a: a.astype(">f4")])
def test_strides_and_byte_orders_are_understood(make):
    array = make(np.arange(12, dtype=np.float32).reshape(4, 3))
    for tensor in (sl.tensor(array), sl.from_numpy(array)):
        np.testing.assert_array_equal(tensor.numpy(), array)


def test_read_only_arrays_are_not_written():
    array = np.zeros(3, np.float32)
    array.flags.writeable = False
    shared = sl.from_numpy(array)
    with pytest.raises(sl.Error, match="read-only"):
        shared[0] = 1
    assert array.tolist() == [0, 0, 0]


def test_operators_mean_what_numpy_means():
    a, b = np.array([[1.0, -2.0], [3.0, 4.5]], np.float32), np.array([2.0, -0.5], np.float32)
    x, y = sl.tensor(a), sl.tensor(b)
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "eq", "ne", "lt", "le", "gt", "ge"):
        function = getattr(__import__("operator"), name)
        np.testing.assert_allclose(function(x, y).numpy(), function(a, b), rtol=1e-6, err_msg=name)
        np.testing.assert_allclose(function(x, 2).numpy(), function(a, np.float32(2)), rtol=1e-6, err_msg=name)
        np.testing.assert_allclose(function(2, x).numpy(), function(np.float32(2), a), rtol=1e-6, err_msg=name)
    np.testing.assert_allclose((x @ x).numpy(), a @ a, rtol=1e-6)
    np.testing.assert_allclose((x**2).numpy(), a**2, rtol=1e-6)
    np.testing.assert_allclose((-x).numpy(), -a)
    assert isinstance(a + x, sl.Tensor)  # NumPy leaves the operator to the tensor


def test_numbers_take_the_dtype_of_the_tensor_beside_them():
    assert (sl.ones(2, "f16") * 2.5).dtype == "f16"
    assert (sl.ones(2, "i32") + 1).dtype == "i32"
    assert (sl.ones(2, "i32") * 0.5).dtype == "f32"
    assert (sl.tensor([5, 4]) / 2).tolist() == [2.5, 2.0]
    assert (1 / sl.tensor([2.0, 4.0])).tolist() == [0.5, 0.25]


def test_operators_leave_strangers_to_the_other_side():
    class Other:
        def __radd__(self, tensor):
            return "mine"

    assert sl.ones(1) + Other() == "mine"
    with pytest.raises(TypeError):
        sl.ones(1) + "text"


KEYS = [
    0, -1, slice(1, 3), slice(None, None, 2), slice(None, None, -1), slice(4, 0, -2), ..., None,
    (0, 1), (slice(None), 2), (..., -1), (None, 0, ...), (slice(1, 2), None, slice(None), 1),
    [0, 2, 2], ([0, 1], [1, 2]), (slice(None), [2, 0]), ([1, 0], slice(None), [2, 3]), (0, slice(None), [0, 1]),
    [], ((0, 1), (1, 2)), True, False, np.array([[0, 1], [2, 0]]), np.array([True, False, True]), (slice(None), np.array([True, False, True, True])),
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_indexing_is_numpys(key):
    array = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    np.testing.assert_array_equal(sl.tensor(array)[key].numpy(), array[key])


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_assigning_is_numpys(key):
    array = np.zeros((3, 4, 5), np.float32)
    tensor = sl.tensor(array)
    for value in (np.float32(7), np.arange(array[key].size, dtype=np.float32).reshape(array[key].shape)):
        tensor[key] = value
        array[key] = value
        np.testing.assert_array_equal(tensor.numpy(), array)


def test_masks_of_several_axes_select_elements():
    array = np.arange(6).reshape(2, 3)
    assert sl.tensor(array)[sl.tensor(array) > 2].tolist() == [3, 4, 5]
    assert sl.tensor(array)[sl.tensor([[True, False, False], [False, False, True]])].tolist() == [0, 5]


@pytest.mark.parametrize("key, error", [(5, IndexError), ((0, 0, 0, 0), IndexError), ((..., ...), IndexError), ("a", IndexError), (1.5, IndexError)])
def test_wrong_keys_are_refused(key, error):
    with pytest.raises(error, match="expected"):
        sl.ones((2, 3, 4))[key]


def test_masks_must_fit():
    with pytest.raises(IndexError, match="mask of size 3 along axis 0, got 2"):
        sl.ones((3, 4))[[True, False]]


def test_integers_that_a_dtype_does_not_have_are_refused_but_compared_as_they_are():
    small = sl.tensor([255, 3], dtype="u8")
    assert (small == 300).tolist() == [False, False] and (small < 300).tolist() == [True, True]
    with pytest.raises(OverflowError, match="300"):
        small + 300
    with pytest.raises(OverflowError):
        sl.ones(1, "i32") + 2**40


def test_doubles_stay_doubles():
    x = sl.zeros(2, "f64")
    x[:] = [0.1, 0.2]
    assert x.tolist() == [0.1, 0.2] and (x + [0.1, 0.1]).tolist() == [0.2, 0.2 + 0.1]
    assert sl.tensor(np.float64(1.1)).dtype == "f64" and sl.tensor([np.float32(1.5), 2]).tolist() == [1.5, 2]


def test_in_place_operators_write():
    x = sl.ones(2)
    y = x
    x += 1
    x *= [2.0, 3.0]
    assert y.tolist() == [4, 6] and x is y
    w = sl.tensor([1.0], requires_grad=True)
    total = w * 2
    total += w
    total.sum().backward()
    assert w.grad.item() == 3
    with pytest.raises(sl.Error, match="would be lost"):
        y[0] = w[0] * 3


def test_wrong_values_are_refused_as_python_errors():
    for wrong in ("text", object(), [[1, 2], [3]], [1, "a"], np.array(["a"]), np.array([1j])):
        with pytest.raises((TypeError, ValueError)):
            sl.tensor(wrong)
    with pytest.raises((TypeError, ValueError)):
        sl.tensor(np.zeros((1,) * 9))
    with pytest.raises(sl.Error):
        sl.zeros((1 << 40, 1 << 40))
    with pytest.raises(sl.Error, match="expected inner sizes"):
        sl.ones((2, 3)) @ sl.ones((2, 3))


def test_lists_that_hold_themselves_are_refused():
    endless: list = []
    endless.append(endless)
    with pytest.raises(ValueError, match="at most 8 dimensions"):
        sl.tensor(endless)


def test_pickles_and_copies():
    for dtype in ("f32", "bf16", "i64", "bool"):
        x = sl.ones((2, 3), dtype)
        back = pickle.loads(pickle.dumps(x))
        assert back.dtype == dtype and back.tolist() == x.tolist()
    x = sl.tensor([1.0], requires_grad=True)
    twin = copy.deepcopy(x)
    twin.assign([5.0])
    assert x.item() == 1 and twin.requires_grad


def test_dlpack_shares_memory_both_ways():
    x = sl.arange(4, dtype="f32")
    view = np.from_dlpack(x)
    assert view.tolist() == [0, 1, 2, 3]
    back = sl.from_dlpack(np.arange(3))
    assert back.tolist() == [0, 1, 2]
    with pytest.raises(sl.Error, match="detach"):
        np.from_dlpack(sl.tensor([1.0], requires_grad=True))


class Exporter:
    """Another library's tensor that speaks one version of DLPack only."""

    def __init__(self, tensor, **version):
        self.tensor, self.version = tensor, version

    def __dlpack__(self, **asked):
        return self.tensor.__dlpack__(**self.version)

    def __dlpack_device__(self):
        return (1, 0)


@pytest.mark.parametrize("version, capsule", [({}, '"dltensor"'), ({"max_version": (1, 0)}, '"dltensor_versioned"')])
def test_dlpack_is_spoken_in_both_versions(version, capsule):
    x = sl.arange(3, dtype="f32")
    assert capsule in repr(x.__dlpack__(**version))
    shared = sl.from_dlpack(Exporter(x, **version))
    if version:
        shared[0] = 7.0
    else:  # an old capsule does not say whether its memory may be written
        x[0] = 7.0
    assert x.tolist() == shared.tolist() == [7, 1, 2]
    own = sl.from_dlpack(Exporter(x, copy=True, **version), copy=True)
    own[0] = 9.0
    assert x.tolist() == [7, 1, 2]
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(2, 0))


def test_memory_that_was_handed_out_outlives_its_tensor():
    views = [np.from_dlpack(sl.full((1 << 16,), float(i))) for i in range(8)]
    arrays = [sl.full((1 << 16,), float(i)).numpy() for i in range(8)]
    back = [sl.from_numpy(np.full(1 << 16, float(i))) for i in range(8)]
    gc.collect()
    [sl.full((1 << 16,), -1.0) for _ in range(16)]
    for kept in (views, arrays, back):
        assert [float(each[-1]) for each in kept] == list(range(8))


def test_printing_shows_rows():
    assert repr(sl.tensor([[1, 2], [3, 4]])) == "i64[2, 2]\n[[1, 2],\n [3, 4]]"
    assert f"{sl.tensor(1.5):.2f}" == "1.50"


def test_python_protocols():
    x = sl.tensor([3, 4])
    assert len(x) == 2 and [int(v) for v in x] == [3, 4] and float(x[0]) == 3.0 and bool(x[0])
    assert [10, 20, 30, 40, 50][x[1]] == 50
    with pytest.raises(sl.Error):
        bool(x)
    assert x.dtype == np.int64 and x.dtype == "int64" and x.dtype is sl.i64 and hash(sl.i64) == hash(sl.int64)
    assert sl.ones(2).to("f16").dtype == sl.float16


def test_parameters_are_the_same_object_however_they_are_asked_for():
    net = sl.nn.Sequential(sl.nn.Linear(2, 3), sl.nn.Linear(3, 1))
    first, second = net.parameters()[0], net.parameters()[1]
    assert net.parameters()[0] is first and net.named_parameters()["0.weight"] is first and net[0].weight is first
    groups = {p: number for number, p in enumerate(net.parameters())}
    assert groups[first] == 0 and groups[net.parameters()[3]] == 3 and len({*net.parameters(), *net.parameters()}) == 4
    optimizer = sl.optim.SGD(net.parameters(), lr=0.1)
    assert optimizer.parameters()[1] is second
    (net(sl.ones((1, 2))).sum()).backward()
    assert first.grad is first.grad


def test_objects_of_tensors_end_with_their_last_reference():
    w = sl.ones(3, "f32").requires_grad_()
    optimizer = sl.optim.SGD([w], lr=0.1)
    gone = weakref.ref(w)
    del w
    assert gone() is None
    again = optimizer.parameters()[0]
    assert again is optimizer.parameters()[0] and again.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    "change",
    [
        lambda x, a: (x[1:], x[:-1]), lambda x, a: (x[:-1], x[1:]), lambda x, a: (x[:], x[::-1]), lambda x, a: (x[::2], x[:5]),
        lambda x, a: (x[2:6], x[[5, 4, 3, 2]]),
    ],
)  # fmt: skip
def test_overlapping_memory_is_read_before_it_is_written(change):
    for size in (9, 40_000):
        array = np.arange(size, dtype=np.float32)
        if size > 9 and change(array, array)[0].shape != change(array, array)[1].shape:
            continue
        tensor = sl.tensor(array)
        target, source = change(array, array)
        mine, other = change(tensor, tensor)
        target[...] = source.copy()
        mine[...] = other
        np.testing.assert_array_equal(tensor.numpy(), array)
    shared = np.arange(6, dtype=np.float32)
    x, y = sl.from_numpy(shared), sl.from_numpy(shared)  # one memory, two storages
    x[1:] = y[:-1]
    assert shared.tolist() == [0, 0, 1, 2, 3, 4]


VIEWS = {
    "column": lambda x: x[:, 1], "transposed": lambda x: x.T, "every other": lambda x: x[::2, 1:], "permuted": lambda x: x.permute(1, 0)[2:],
}  # fmt: skip


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("key", [..., 0, slice(None, None, -1), slice(1, 3), [0, 1, 1], slice(None, None, 2)], ids=str)
def test_views_of_any_strides_are_written_through(view, key):
    array = np.zeros((4, 5), np.float32)
    tensor = sl.tensor(array)
    part = view(tensor)
    shape = np.asarray(part.numpy())[key].shape
    value = np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape)
    if key == [0, 1, 1]:  # of values for one place the last stays, as in NumPy
        value = np.broadcast_to(np.float32(7), shape)
    own = {"column": lambda a: a[:, 1], "transposed": lambda a: a.T, "every other": lambda a: a[::2, 1:], "permuted": lambda a: a.T[2:]}
    name = next(name for name, each in VIEWS.items() if each is view)
    own[name](array)[key] = value
    part[key] = value
    np.testing.assert_array_equal(tensor.numpy(), array)
    part += 1
    own[name](array)[...] += 1
    np.testing.assert_array_equal(tensor.numpy(), array)


COLUMN = """
    import re, starling as sl
    peak = lambda: int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) >> 10
    x = sl.ones((4000, 4000))
    x[:, 0] = 2.0
    before = peak()
    for i in range(1, 40): x[:, i] = float(i)
    print(x[7, :40].tolist() == [2.0, *map(float, range(1, 40))], peak() - before < 32 and 64 < before < 200)
"""


def test_writing_a_column_makes_no_copy_of_the_whole(tmp_path):
    done = run_script(COLUMN, tmp_path)
    assert done.stdout.split() == ["True", "True"], done.stdout + done.stderr


def test_functions_of_numpy_take_tensors():
    array = np.array([[1.0, 2.0], [3.0, 4.5]], np.float32)
    x = sl.tensor(array)
    for ask in (
        lambda a: np.exp(a), lambda a: np.add(a, array), lambda a: np.subtract(array, a), lambda a: array @ a, lambda a: np.float32(2) * a,
        lambda a: np.less(a, 3), lambda a: np.greater(3, a), lambda a: np.maximum(a, 2), lambda a: np.mean(a), lambda a: np.mean(a, axis=0),
        lambda a: np.sum(a, 1, keepdims=True), lambda a: np.std(a, axis=1), lambda a: np.var(a, ddof=1), lambda a: np.max(a, axis=0),
        lambda a: np.argmax(a, axis=1), lambda a: np.concatenate([a, array], axis=1), lambda a: np.stack([a, a]), lambda a: np.clip(a, 2, 3),
        lambda a: np.where(a > 2, a, 0), lambda a: np.transpose(a), lambda a: np.reshape(a, (4,)), lambda a: np.expand_dims(a, 0),
    ):  # fmt: skip
        got, want = ask(x), ask(array)
        assert isinstance(got, sl.Tensor)
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)
    for ask in (lambda a: np.median(a), lambda a: np.percentile(a, 30), lambda a: np.add.reduce(a), lambda a: np.log10(a),
                lambda a: np.linalg.norm(a), lambda a: np.allclose(a, array), lambda a: np.cumsum(a, axis=0)):  # fmt: skip
        got = ask(x)
        assert not isinstance(got, sl.Tensor)
        np.testing.assert_allclose(got, ask(array), rtol=1e-6)
    out = sl.zeros((2, 2))
    assert np.exp(x, out=out) is out and out[0, 0].item() == pytest.approx(np.e)
    target = array.copy()
    target += x
    assert isinstance(target, np.ndarray) and target[1, 1] == 9
    w = sl.tensor([0.0, 1.0], requires_grad=True)
    np.sum(np.exp(w)).backward()
    np.testing.assert_allclose(w.grad.numpy(), np.exp([0.0, 1.0]), rtol=1e-6)
    assert "exp" in traced_graph(lambda a: np.mean(np.exp(a)), x)


def traced_graph(function, *arguments):
    program = sl.compile(function)
    program(*arguments)
    return program.graph(traced=True)


def test_types_meet_as_the_page_says():
    """docs/python.md, What to know: two things that PyTorch does otherwise."""
    single, double = sl.ones(3), sl.tensor(2.0, "f64")
    assert (single * double).dtype == sl.f64 and (single * double.item()).dtype == sl.f32 and (single * 2.0).dtype == sl.f32
    assert (sl.ones(3, "i32") + sl.tensor(1, "i64")).dtype == sl.i64
    whole = sl.tensor([7, -7])
    assert sl.div(whole, 2).tolist() == [3, -3] and (whole // 2).tolist() == [3, -4] and (whole / 2).tolist() == [3.5, -3.5]
