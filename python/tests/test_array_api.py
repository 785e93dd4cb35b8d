"""The namespace of the array API: every function of the standard, held against NumPy's, which has the same one.

The standard's own suite is the larger test: scripts/test --stage array_api.
"""

import inspect

import numpy as np
import pytest

import starling as sl
import starling.array_api as xp

if np.lib.NumpyVersion(np.__version__) < "2.1.0":
    pytest.skip("NumPy before 2.1 has no namespace of the standard to compare with", allow_module_level=True)

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float32", "float64"]
SHAPES = [(), (0,), (7,), (2, 0, 3), (3, 4)]

# Signatures of the standard, version 2024.12: '/' ends what goes by position alone, '*' begins what goes by name alone.
SIGNATURES = """
arange(start, /, stop, step, *, dtype, device)  asarray(obj, /, *, dtype, device, copy)  empty(shape, *, dtype, device)
empty_like(x, /, *, dtype, device)  eye(n_rows, n_cols, /, *, k, dtype, device)  from_dlpack(x, /, *, device, copy)
full(shape, fill_value, *, dtype, device)  full_like(x, /, fill_value, *, dtype, device)
linspace(start, stop, /, num, *, dtype, device, endpoint)  meshgrid(*arrays, indexing)  ones(shape, *, dtype, device)
ones_like(x, /, *, dtype, device)  tril(x, /, *, k)  triu(x, /, *, k)  zeros(shape, *, dtype, device)
zeros_like(x, /, *, dtype, device)  astype(x, dtype, /, *, copy, device)  can_cast(from_, to, /)  finfo(type, /)  iinfo(type, /)
isdtype(dtype, kind)  result_type(*arrays_and_dtypes)  clip(x, /, min, max)  take(x, indices, /, *, axis)
take_along_axis(x, indices, /, *, axis)  matmul(x1, x2, /)  matrix_transpose(x, /)  tensordot(x1, x2, /, *, axes)
vecdot(x1, x2, /, *, axis)  broadcast_arrays(*arrays)  broadcast_to(x, /, shape)  concat(arrays, /, *, axis)  expand_dims(x, /, axis)
flip(x, /, *, axis)  moveaxis(x, source, destination, /)  permute_dims(x, /, axes)  repeat(x, repeats, /, *, axis)
reshape(x, /, shape, *, copy)  roll(x, /, shift, *, axis)  squeeze(x, /, axis)  stack(arrays, /, *, axis)  tile(x, repetitions, /)
unstack(x, /, *, axis)  argmax(x, /, *, axis, keepdims)  argmin(x, /, *, axis, keepdims)  count_nonzero(x, /, *, axis, keepdims)
nonzero(x, /)  searchsorted(x1, x2, /, *, side, sorter)  where(condition, x1, x2, /)  unique_all(x, /)  unique_counts(x, /)
unique_inverse(x, /)  unique_values(x, /)  argsort(x, /, *, axis, descending, stable)  sort(x, /, *, axis, descending, stable)
cumulative_prod(x, /, *, axis, dtype, include_initial)  cumulative_sum(x, /, *, axis, dtype, include_initial)
max(x, /, *, axis, keepdims)  mean(x, /, *, axis, keepdims)  min(x, /, *, axis, keepdims)  prod(x, /, *, axis, dtype, keepdims)
std(x, /, *, axis, correction, keepdims)  sum(x, /, *, axis, dtype, keepdims)  var(x, /, *, axis, correction, keepdims)
all(x, /, *, axis, keepdims)  any(x, /, *, axis, keepdims)  diff(x, /, *, axis, n, prepend, append)
linalg.cholesky(x, /, *, upper)  linalg.cross(x1, x2, /, *, axis)  linalg.det(x, /)  linalg.diagonal(x, /, *, offset)
linalg.eigh(x, /)  linalg.eigvalsh(x, /)  linalg.inv(x, /)  linalg.matmul(x1, x2, /)  linalg.matrix_norm(x, /, *, keepdims, ord)
linalg.matrix_power(x, n, /)  linalg.matrix_rank(x, /, *, rtol)  linalg.matrix_transpose(x, /)  linalg.outer(x1, x2, /)
linalg.pinv(x, /, *, rtol)  linalg.qr(x, /, *, mode)  linalg.slogdet(x, /)  linalg.solve(x1, x2, /)
linalg.svd(x, /, *, full_matrices)  linalg.svdvals(x, /)  linalg.tensordot(x1, x2, /, *, axes)  linalg.trace(x, /, *, offset, dtype)
linalg.vecdot(x1, x2, /, *, axis)  linalg.vector_norm(x, /, *, axis, keepdims, ord)
"""
UNARY = """abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag isfinite isinf isnan log log1p
log2 log10 logical_not negative positive real reciprocal round sign signbit sin sinh square sqrt tan tanh trunc""".split()
BINARY = """add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal floor_divide
greater greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor maximum minimum multiply nextafter not_equal
pow remainder subtract""".split()
WHOLE = {"bitwise_invert", "bitwise_and", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor"}
LOGICAL = {"logical_not", "logical_and", "logical_or", "logical_xor"}
NUMERIC = {
    "abs", "ceil", "conj", "floor", "isfinite", "isinf", "isnan", "negative", "positive", "round", "sign", "square", "trunc", "add",
    "equal", "floor_divide", "greater", "greater_equal", "less", "less_equal", "maximum", "minimum", "multiply", "not_equal", "pow",
    "remainder", "subtract",
}  # fmt: skip


def dtypes_of(name):
    if name in LOGICAL:
        return ["bool"]
    return INTEGERS + ["bool"] * ("shift" not in name) if name in WHOLE else INTEGERS + FLOATS if name in NUMERIC else FLOATS


def values(shape, dtype, seed=0):
    """Numbers of every kind that a dtype has, special ones included."""
    generator = np.random.default_rng(seed)
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(bool)
    if dtype in FLOATS:
        some = generator.normal(size=shape) * generator.choice([1e-3, 1.0, 30.0], size=shape)
        special = generator.choice([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan], size=shape)
        return np.where(generator.random(shape) < 0.3, special, some).astype(dtype)
    about = np.iinfo(dtype)
    wide = generator.integers(about.min, about.max, shape, dtype, endpoint=True)
    return np.where(generator.random(shape) < 0.6, generator.integers(0, 9, shape), wide).astype(dtype)


def agree(ours, theirs, exact=False):
    assert isinstance(ours, sl.Tensor) and ours.shape == theirs.shape, (ours.shape, theirs.shape)
    got = ours.numpy()
    if theirs.dtype.kind == "f" and not exact:
        tolerance = 3e-6 if theirs.dtype == np.float32 else 1e-12
        np.testing.assert_allclose(got, theirs.astype(got.dtype), rtol=tolerance, atol=tolerance)
        np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(theirs[got == 0].astype(got.dtype)))
    else:
        np.testing.assert_array_equal(got, theirs)


def signature_of(name):
    function = xp
    for part in name.split("."):
        function = getattr(function, part)
    words, kinds = [], inspect.Parameter
    parameters = list(inspect.signature(function).parameters.values())
    for i, one in enumerate(parameters):
        before = parameters[i - 1].kind if i else None
        if before == kinds.POSITIONAL_ONLY and one.kind != kinds.POSITIONAL_ONLY:
            words.append("/")
        if one.kind == kinds.KEYWORD_ONLY and before not in (kinds.KEYWORD_ONLY, kinds.VAR_POSITIONAL):
            words.append("*")
        words.append("*" * (one.kind == kinds.VAR_POSITIONAL) + one.name)
    if parameters[-1].kind == kinds.POSITIONAL_ONLY:
        words.append("/")
    return f"{name}({', '.join(words)})"


def test_every_function_has_the_signature_of_the_standard():
    wanted = [one + ")" for line in SIGNATURES.split("\n") for one in line.split(")") if one.strip()]
    wanted += [f"{name}(x, /)" for name in UNARY] + [f"{name}(x1, x2, /)" for name in BINARY]
    assert len(wanted) > 150
    for signature in map(str.strip, wanted):
        assert signature_of(signature.split("(")[0]) == signature


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_array_are_numpys(name):
    for dtype in dtypes_of(name):
        for shape in SHAPES:
            x = values(shape, dtype)
            theirs = getattr(np, name)(x)
            ours = getattr(xp, name)(xp.asarray(x))
            if name not in ("isfinite", "isinf", "isnan", "signbit"):
                assert ours.dtype == dtype, (name, dtype, ours.dtype)
            agree(ours, np.asarray(theirs).astype(ours.numpy().dtype))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_arrays_are_numpys(name):
    for dtype in dtypes_of(name):
        for shape, other in [((), (7,)), ((7,), (7,)), ((3, 1), (1, 4)), ((0,), (1,))]:
            x, y = values(shape, dtype, 1), values(other, dtype, 2)
            if dtype in INTEGERS and ("shift" in name or name == "pow"):
                x, y = x % np.asarray(5, dtype), np.abs(y.astype("f8") % 5).astype(dtype)
                y = np.minimum(y, np.asarray(2, dtype))
            if dtype in INTEGERS and name in ("floor_divide", "remainder"):
                y = np.where(y == 0, np.asarray(1, dtype), np.where(y > 100, np.asarray(100, dtype), y)).astype(dtype)
                x = np.where(x == np.iinfo(dtype).min, np.asarray(0, dtype), x).astype(dtype)
            if dtype in FLOATS and name in ("floor_divide", "remainder"):
                x, y = np.nan_to_num(x, posinf=3, neginf=-3), np.where(np.isfinite(y) & (y != 0), y, 2).astype(dtype)
                x = np.clip(x, -50, 50)
            agree(getattr(xp, name)(xp.asarray(x), xp.asarray(y)), np.asarray(getattr(np, name)(x, y)))


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS)
def test_reductions_are_numpys(dtype):
    x = values((3, 4, 2), dtype) if dtype not in FLOATS else np.random.default_rng(0).normal(size=(3, 4, 2)).astype(dtype)
    array = xp.asarray(x)
    for axis in (None, 0, -1, (0, 2), ()):
        for keepdims in (False, True):
            for name in ("sum", "prod", "max", "min", "all", "any", "count_nonzero"):
                with np.errstate(over="ignore"):
                    theirs = np.asarray(getattr(np, name)(x, axis=axis, keepdims=keepdims))
                agree(getattr(xp, name)(array, axis=axis, keepdims=keepdims), theirs)
            if dtype in FLOATS:
                for name, more in (("mean", {}), ("var", {}), ("std", {"correction": 1.0}), ("var", {"correction": 0.5})):
                    if axis == () and more:
                        continue
                    theirs = np.asarray(getattr(np, name)(x, axis=axis, keepdims=keepdims, **more))
                    agree(getattr(xp, name)(array, axis=axis, keepdims=keepdims, **more), theirs)
    for axis in (0, 1, -1):
        agree(xp.argmax(array, axis=axis), np.argmax(x, axis=axis))
        agree(xp.argmin(array, axis=axis, keepdims=True), np.argmin(x, axis=axis, keepdims=True))
        agree(xp.sort(array, axis=axis), np.sort(x, axis=axis), exact=True)
        agree(xp.argsort(array, axis=axis), np.argsort(x, axis=axis, stable=True))
        agree(xp.sort(array, axis=axis, descending=True), np.flip(np.sort(x, axis=axis), axis=axis), exact=True)
        with np.errstate(over="ignore"):
            agree(xp.cumulative_sum(array, axis=axis), np.cumulative_sum(x, axis=axis))
            agree(xp.cumulative_prod(array, axis=axis, include_initial=True), np.cumulative_prod(x, axis=axis, include_initial=True))
            agree(xp.diff(array, axis=axis, n=2), np.diff(x, axis=axis, n=2))
    found, want = xp.unique_all(array), np.unique_all(x)
    for ours, theirs in zip(found, want):
        agree(ours, theirs, exact=True)


def test_shapes_and_indices_are_numpys():
    x = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    array = xp.asarray(x)
    index, places = np.array([2, 0, 1, 1]), np.array([[[0], [2], [1]]])
    for name, arguments, keywords in [
        ("broadcast_to", ((5, 2, 3, 4),), {}), ("expand_dims", (), {"axis": -2}), ("flip", (), {}), ("flip", (), {"axis": (0, -1)}),
        ("moveaxis", ((0, 1), (-1, 0)), {}), ("permute_dims", ((2, 0, 1),), {}), ("repeat", (3,), {}), ("repeat", (2,), {"axis": 1}),
        ("reshape", ((4, -1),), {}), ("roll", (5,), {}), ("roll", ((1, -2),), {"axis": (0, 2)}), ("tile", ((2, 1, 1, 3),), {}),
        ("tile", ((2,),), {}), ("take", (index,), {"axis": 1}), ("take_along_axis", (places,), {"axis": -1}), ("tril", (), {"k": 1}),
        ("triu", (), {"k": -1}), ("matrix_transpose", (), {}),
    ]:  # fmt: skip
        theirs = np.asarray(getattr(np, name)(x, *arguments, **keywords))
        wrapped = [xp.asarray(a) if isinstance(a, np.ndarray) else a for a in arguments]
        agree(getattr(xp, name)(array, *wrapped, **keywords), theirs)
    agree(xp.concat([array, array], axis=None), np.concat([x, x], axis=None))
    agree(xp.stack([array, array], axis=-1), np.stack([x, x], axis=-1))
    agree(xp.squeeze(array[:, :1], axis=1), x[:, 0])
    for ours, theirs in zip(xp.unstack(array, axis=1), np.unstack(x, axis=1)):
        agree(ours, theirs)
    for ours, theirs in zip(xp.nonzero(array > 5), np.nonzero(x > 5)):
        agree(ours, theirs)
    for indexing in ("xy", "ij"):
        for ours, theirs in zip(xp.meshgrid(array[0, 0], array[0, 1], indexing=indexing), np.meshgrid(x[0, 0], x[0, 1], indexing=indexing)):
            agree(ours, theirs)
    ordered, wanted = np.sort(values((20,), "int32")), values((3, 5), "int32", 7)
    for side in ("left", "right"):
        agree(xp.searchsorted(xp.asarray(ordered), xp.asarray(wanted), side=side), np.searchsorted(ordered, wanted, side=side))
    agree(xp.clip(array, 3, xp.asarray(np.float32(9))), np.clip(x, 3, np.float32(9)))
    agree(xp.where(array > 3, array, 0.5), np.where(x > 3, x, np.float32(0.5)))


def test_creation_is_numpys():
    for arguments in [(5,), (2, 9, 3), (9, 2, -3), (0.5, 3.0, 0.25), (1, 1), (-5, -1)]:
        theirs = np.arange(*arguments)
        agree(xp.arange(*arguments), theirs.astype(np.float32) if theirs.dtype.kind == "f" else theirs)
    big = xp.arange(2**60, 2**60 + 3)
    assert big.tolist() == [2**60, 2**60 + 1, 2**60 + 2]
    for endpoint in (True, False):
        for count in (0, 1, 5):
            agree(xp.linspace(1, 3, count, endpoint=endpoint), np.linspace(1, 3, count, endpoint=endpoint).astype(np.float32))
    for k in (-1, 0, 2):
        agree(xp.eye(3, 4, k=k), np.eye(3, 4, k=k, dtype=np.float32))
    assert xp.full((2,), 2**63, dtype=xp.uint64).tolist() == [2**63] * 2
    assert xp.full((2,), True).dtype == xp.bool and xp.zeros(3).dtype == xp.float32
    kept = xp.asarray(np.ones(3, np.float32))
    assert xp.asarray(kept, copy=True) is not kept and xp.asarray(kept) is kept
    with pytest.raises(ValueError, match="copied"):
        xp.asarray(kept, dtype=xp.float64, copy=False)


def test_linear_algebra_is_numpys():
    generator = np.random.default_rng(0)
    square = generator.normal(size=(2, 4, 4))
    positive = square @ np.swapaxes(square, -1, -2) + 4 * np.eye(4)
    tall, wide = generator.normal(size=(2, 5, 3)), generator.normal(size=(3, 5))
    x, right = xp.asarray(square), generator.normal(size=(4, 2))
    for name, given in [("cholesky", positive), ("det", square), ("inv", square), ("eigvalsh", positive), ("svdvals", tall), ("pinv", tall),
                        ("matrix_rank", tall), ("trace", square), ("diagonal", square)]:  # fmt: skip
        theirs = getattr(np.linalg, name)(given)
        agree_loosely(getattr(xp.linalg, name)(xp.asarray(given)), theirs)
    agree_loosely(xp.linalg.cholesky(xp.asarray(positive), upper=True), np.swapaxes(np.linalg.cholesky(positive), -1, -2))
    agree_loosely(xp.linalg.solve(x, xp.asarray(right)), np.linalg.solve(square, right))
    agree_loosely(xp.linalg.solve(x, xp.asarray(right[:, 0])), np.linalg.solve(square, right[:, 0]))
    for n in (0, 3, -2):
        agree_loosely(xp.linalg.matrix_power(x, n), np.linalg.matrix_power(square, n))
    for ours, theirs in zip(xp.linalg.slogdet(x), np.linalg.slogdet(square)):
        agree_loosely(ours, theirs)
    for given in (tall, wide):
        for full in (True, False):
            u, s, vh = (part.numpy() for part in xp.linalg.svd(xp.asarray(given), full_matrices=full))
            want = np.linalg.svd(given, full_matrices=full)
            assert (u.shape, s.shape, vh.shape) == tuple(part.shape for part in want)
            k = s.shape[-1]
            np.testing.assert_allclose(u[..., :k] * s[..., None, :] @ vh[..., :k, :], given, atol=1e-10)
            for q in (u, np.swapaxes(vh, -1, -2)):
                np.testing.assert_allclose(np.swapaxes(q, -1, -2) @ q, np.broadcast_to(np.eye(q.shape[-1]), q.shape[:-2] + (q.shape[-1],) * 2), atol=1e-10)
        for mode in ("reduced", "complete"):
            q, r = (part.numpy() for part in xp.linalg.qr(xp.asarray(given), mode=mode))
            assert (q.shape, r.shape) == tuple(part.shape for part in np.linalg.qr(given, mode=mode))
            np.testing.assert_allclose(q @ r, given, atol=1e-10)
            np.testing.assert_allclose(r, np.triu(r))
    values_, vectors = xp.linalg.eigh(xp.asarray(positive))
    np.testing.assert_allclose((vectors * values_[..., None, :] @ vectors.mT).numpy(), positive, atol=1e-9)
    for order in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        agree_loosely(xp.linalg.matrix_norm(xp.asarray(tall), ord=order), np.linalg.matrix_norm(tall, ord=order))
    for order in (0, 1, 2, 3.5, -1, np.inf, -np.inf):
        agree_loosely(xp.linalg.vector_norm(x, ord=order, axis=(0, 2)), np.linalg.vector_norm(square, ord=order, axis=(0, 2)))
    agree_loosely(xp.linalg.cross(x[..., :3], x[..., 1:]), np.linalg.cross(square[..., :3], square[..., 1:]))
    agree_loosely(xp.linalg.outer(x[0, 0], x[0, 1]), np.linalg.outer(square[0, 0], square[0, 1]))


def agree_loosely(ours, theirs):
    np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS)
def test_products_are_numpys(dtype):
    a, b = (np.random.default_rng(i).integers(0, 9, shape).astype(dtype) for i, shape in ((0, (2, 3, 4)), (1, (4, 5))))
    x, y = xp.asarray(a), xp.asarray(b)
    agree(xp.matmul(x, y), a @ b)
    agree(xp.matmul(x[0, 0], y), a[0, 0] @ b)
    agree(xp.matmul(x, y[:, 0]), a @ b[:, 0])
    agree(xp.tensordot(x, y, axes=1), np.tensordot(a, b, axes=1))
    agree(xp.tensordot(x, x, axes=((0, 2), (0, 2))), np.tensordot(a, a, axes=((0, 2), (0, 2))))
    agree(xp.vecdot(x, x[:1]), np.vecdot(a, a[:1]))
    for wrong in (y[:1], y[:3], y[0, :1]):  # sizes of 1 do not stretch here
        with pytest.raises(ValueError, match="as many columns"):
            xp.matmul(x, wrong)


def test_dtypes_mix_as_the_standard_says():
    for a in INTEGERS + FLOATS:
        for b in INTEGERS + FLOATS:
            mixes = (a in FLOATS) == (b in FLOATS) and {a[:3], b[:3]} != {"int", "uin"} or "uint64" not in (a, b) and (a in INTEGERS) == (b in INTEGERS)
            if mixes:
                assert xp.result_type(getattr(xp, a), getattr(xp, b)) == str(np.result_type(a, b)), (a, b)
            else:
                with pytest.raises(TypeError):
                    xp.result_type(getattr(xp, a), getattr(xp, b))
    assert xp.result_type(xp.ones(1, dtype=xp.int8), 3) == xp.int8
    for dtype in FLOATS:
        ours, theirs = xp.finfo(getattr(xp, dtype)), np.finfo(dtype)
        assert (ours.bits, ours.eps, ours.max, ours.min, ours.smallest_normal) == tuple(
            float(getattr(theirs, name)) for name in ("bits", "eps", "max", "min", "smallest_normal")
        )
    for dtype in INTEGERS:
        assert (xp.iinfo(getattr(xp, dtype)).max, xp.iinfo(getattr(xp, dtype)).min) == (np.iinfo(dtype).max, np.iinfo(dtype).min)
    info = xp.__array_namespace_info__()
    assert set(info.dtypes(kind="integral")) == set(INTEGERS) and info.default_dtypes()["integral"] == xp.int64
    assert xp.isdtype(xp.uint8, ("bool", "unsigned integer")) and not xp.isdtype(xp.float32, "integral")
    assert xp.can_cast(xp.int8, xp.int64) and not xp.can_cast(xp.int64, xp.int8)


def test_a_tensor_knows_its_namespace_and_functions_compile():
    x = sl.normal((4, 3))
    assert x.__array_namespace__(api_version="2023.12") is xp and xp.__array_api_version__ == "2024.12"
    assert x.to_device(x.device).device == x.device
    with pytest.raises(ValueError, match="2024.12"):
        x.__array_namespace__(api_version="1999.01")

    def f(a):
        space = a.__array_namespace__()
        return space.sum(space.square(space.linalg.vector_norm(a, axis=1))) + space.logaddexp(a, a * 2).mean() + space.tril(a).sum()

    np.testing.assert_allclose(sl.compile(f)(x).item(), f(x).item(), rtol=1e-6)
    want = np.sum(x.numpy() ** 2) + np.logaddexp(x.numpy(), 2 * x.numpy()).mean() + np.tril(x.numpy()).sum()
    np.testing.assert_allclose(f(x).item(), want, rtol=1e-5)
    with pytest.raises(sl.Error, match="compiled"):
        sl.compile(xp.signbit)(x)


def test_differences_and_repetitions_of_any_number_end():
    x = xp.asarray([1.0, 4.0, 9.0])
    assert xp.diff(x, n=0).tolist() == [1, 4, 9] and xp.diff(x, n=2).tolist() == [2] and xp.diff(x, n=1 << 62).shape == (0,)
    assert xp.repeat(x, xp.asarray([1, 0, 2])).tolist() == [1, 9, 9] and xp.repeat(x, 0).shape == (0,)
    with pytest.raises(ValueError, match="expected a number of times, got -1"):
        xp.diff(x, n=-1)
    for counts in (1 << 62, -1):
        with pytest.raises(ValueError, match="expected counts from 0 to what memory holds"):
            xp.repeat(x, counts)
