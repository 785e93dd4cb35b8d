"""Memory shared by DLPack: who may write, devices, copies, streams; capsules of both versions."""

import ctypes
import gc

import numpy as np
import pytest

import starling as sl
from memory import resident
from ranks import run_script


class Exporter:
    """Another library's array, which answers as it is told to, and notes what it was asked."""

    def __init__(self, array, versioned=True, device=(1, 0), read_only=None):
        self.array, self.versioned, self.device = array, versioned, device
        if read_only is not None:
            array.flags.writeable = not read_only
        self.asked = []

    def __dlpack__(self, **asked):
        self.asked.append(asked)
        if not self.versioned and "max_version" in asked:
            raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")
        return self.array.__dlpack__(max_version=(1, 0)) if self.versioned else sl.from_numpy(self.array).__dlpack__()

    def __dlpack_device__(self):
        return self.device


def expect_not_writable(x):
    before = x.tolist()
    for write in (lambda: x.__setitem__(0, 5.0), lambda: x.assign(sl.zeros(x.shape)), lambda: x.__iadd__(1)):
        with pytest.raises((sl.Error, ValueError)):
            write()
    assert x.tolist() == before and not x.numpy().flags.writeable


def test_memory_that_an_exporter_calls_read_only_is_not_written():
    array = np.arange(4, dtype=np.float32)
    for make in (sl.from_dlpack, sl.asarray):
        expect_not_writable(make(Exporter(array.copy(), read_only=True)))
    writable = Exporter(array)
    sl.from_dlpack(writable)[0] = 9.0
    assert array[0] == 9 and writable.asked == [{"max_version": (1, 1)}]


def test_exporters_that_cannot_say_so_share_memory_that_is_not_written():
    """Before version 1 a capsule could not tell: as in NumPy, nobody writes what may be frozen."""
    array = np.arange(4, dtype=np.float32)
    shared = sl.from_dlpack(Exporter(array, versioned=False))
    expect_not_writable(shared)
    array[1] = 7
    assert shared.tolist() == [0, 7, 2, 3]  # shared all the same
    own = sl.from_dlpack(Exporter(array, versioned=False), copy=True)
    own[0] = 5.0
    assert array[0] == 0 and own[0].item() == 5


def test_our_own_memory_that_may_not_be_written_stays_so_through_dlpack(tmp_path):
    net = sl.nn.Linear(4, 2)
    sl.save_model(net, tmp_path / "model", np.zeros((1, 4), np.float32))
    model = sl.SavedModel(str(tmp_path / "model"))
    weight = max(model.weights.values(), key=lambda tensor: tensor.size)  # of the mapped file: writing there is a fault of the process
    expect_not_writable(weight)
    expect_not_writable(sl.from_dlpack(weight))
    assert not np.from_dlpack(weight).flags.writeable
    with pytest.raises(BufferError, match="may not be written"):
        weight.__dlpack__()
    assert "dltensor" in repr(weight.__dlpack__(copy=True))
    own = sl.from_dlpack(weight, copy=True)
    own[...] = 1.0
    assert model(np.ones((1, 4), np.float32)).shape == (1, 2)


WRITES = """
    import numpy as np, sys, starling as sl
    sl.save_model(sl.nn.Linear(4, 2), sys.argv[1], np.zeros((1, 4), np.float32))
    weights = sl.SavedModel(sys.argv[1]).weights
    refused = 0
    for weight in weights.values():
        for one in (weight, sl.from_dlpack(weight), sl.asarray(weight.numpy()), weight.reshape(-1)):
            try:
                one[...] = 1.0
            except (sl.Error, ValueError):
                refused += 1
    print(refused == 4 * len(weights), flush=True)
"""


def test_writing_to_a_mapped_file_is_an_error_not_a_fault(tmp_path):
    done = run_script(WRITES, tmp_path, arguments=[str(tmp_path / "model")])
    assert (done.returncode, done.stdout.strip()) == (0, "True"), (done.returncode, done.stdout + done.stderr)


def test_capsules_are_taken_once():
    x = sl.arange(3, dtype="f32")
    for version in ({}, {"max_version": (1, 0)}):
        capsule = x.__dlpack__(**version)
        assert sl.from_dlpack(capsule).tolist() == [0, 1, 2]
        with pytest.raises(TypeError, match="nobody has taken"):
            sl.from_dlpack(capsule)
    with pytest.raises(TypeError, match="expected an array with __dlpack__"):
        sl.from_dlpack([1, 2])


def test_copies_are_made_when_asked_for_and_only_then():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.shares_memory(sl.from_dlpack(array, copy=False).numpy(), array)
    assert np.shares_memory(sl.from_dlpack(array).numpy(), array)
    assert not np.shares_memory(sl.from_dlpack(array, copy=True).numpy(), array)
    for other in (array[::-1], np.frombuffer(b"\0" * 17, np.uint8)[1:].view(np.float32), array.astype(">f4")):
        np.testing.assert_array_equal(sl.from_dlpack(other).numpy(), other)
        with pytest.raises((ValueError, BufferError), match="(?i)copied|copy"):
            sl.from_dlpack(other, copy=False)
    x = sl.from_numpy(array)
    assert np.shares_memory(np.from_dlpack(x), array)
    x.__dlpack__(copy=False), x.__dlpack__(copy=None, dl_device=(1, 0), stream=None)
    assert "dltensor_versioned" in repr(x.__dlpack__(max_version=(1, 0), copy=True))


class Flags(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64)]


def flags_of(capsule):
    ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
    ctypes.pythonapi.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    managed = Flags.from_address(ctypes.pythonapi.PyCapsule_GetPointer(capsule, b"dltensor_versioned"))
    return (managed.major, managed.minor), managed.flags


def test_flags_are_those_of_the_standard():
    array = np.arange(3, dtype=np.float32)
    frozen = array.copy()
    frozen.flags.writeable = False
    assert flags_of(sl.from_numpy(array).__dlpack__(max_version=(1, 1))) == ((1, 1), 0)
    assert flags_of(sl.from_numpy(frozen).__dlpack__(max_version=(1, 0)))[1] == 1
    assert flags_of(sl.from_numpy(frozen).__dlpack__(max_version=(1, 0), copy=True))[1] == 2


def test_devices_and_streams_are_checked():
    x = sl.ones(3)
    assert x.__dlpack_device__() == (1, 0)
    assert sl.from_dlpack(x, device="cpu").tolist() == [1, 1, 1]
    with pytest.raises(BufferError, match="dl_device"):
        x.__dlpack__(dl_device=(2, 0))
    with pytest.raises(ValueError, match="stream=None"):
        x.__dlpack__(stream=7)
    for kind in (4, 8, 14):  # OpenCL, Metal, oneAPI
        with pytest.raises(BufferError, match=f"kind {kind}|of the CPU or of CUDA"):
            sl.from_dlpack(OnDevice(sl.ones(3), kind))


class OnDevice:
    """An array that claims to be on a device of this kind, by a capsule that says so, too."""

    def __init__(self, tensor, kind):
        self.tensor, self.kind, self.asked = tensor, kind, []

    def __dlpack__(self, **asked):
        self.asked.append(asked)
        capsule = self.tensor.__dlpack__(max_version=(1, 0))
        if asked.get("dl_device", (self.kind,))[0] == self.kind:
            ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
            ctypes.pythonapi.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
            base = ctypes.pythonapi.PyCapsule_GetPointer(capsule, b"dltensor_versioned")
            ctypes.c_int32.from_address(base + ctypes.sizeof(Flags) + ctypes.sizeof(ctypes.c_void_p)).value = self.kind
        return capsule

    def __dlpack_device__(self):
        return (self.kind, 0)


def gpus():
    try:
        sl.ones(1).to("cuda:0")
        return True
    except sl.Error:
        return False


def test_memory_of_a_gpu_is_refused_by_name_where_there_is_none():
    if gpus():
        pytest.skip("this machine has a GPU: test_gpu.py shares its memory")
    with pytest.raises(BufferError, match='cuda:0.*device="cpu"'):
        sl.from_dlpack(OnDevice(sl.ones(3), 2))
    # Its owner brings it here, if we ask for the CPU.
    exporter = OnDevice(sl.full((3,), 2.0), 2)
    assert sl.from_dlpack(exporter, device="cpu").tolist() == [2, 2, 2]
    assert exporter.asked == [{"dl_device": (1, 0), "max_version": (1, 1)}]
    with pytest.raises(ValueError, match="copy=True or None"):
        sl.from_dlpack(OnDevice(sl.ones(3), 2), device="cpu", copy=False)
    with pytest.raises(sl.Error):
        sl.from_dlpack(sl.ones(3), device="cuda:0")


def test_exchanged_memory_is_given_back():
    array = np.ones(1 << 20, np.float32)

    def exchange():
        for _ in range(50):
            sl.from_dlpack(Exporter(array)).sum()
            sl.from_dlpack(sl.from_dlpack(sl.ones(1 << 20)), copy=True)
            for refuse in (lambda: sl.from_dlpack(OnDevice(sl.ones(1 << 20), 8)), lambda: sl.from_dlpack(np.ones(1 << 18, np.complex64))):
                with pytest.raises((BufferError, TypeError, ValueError)):
                    refuse()

    exchange()
    gc.collect()
    before = resident()
    exchange()
    exchange()
    assert resident() - before < 16 << 20  # 4 MB each, 500 of them


def test_arrays_of_the_namespace_take_the_same_arguments():
    from starling import array_api as xp

    array = np.arange(3, dtype=np.float32)
    assert np.shares_memory(xp.from_dlpack(array, copy=False).numpy(), array)
    assert not np.shares_memory(xp.from_dlpack(array, device=xp.from_dlpack(array).device, copy=True).numpy(), array)
