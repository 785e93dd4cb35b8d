"""Tensors: what goes in comes out, in every dtype, and operators mean what NumPy means."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

import starling as sl

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
    shared[0] = 7.0
    assert x.tolist() == [7, 1, 2]
    own = sl.from_dlpack(Exporter(x, copy=True, **version))
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
