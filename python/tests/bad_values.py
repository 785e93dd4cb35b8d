"""bad_values.py SEED CALLS: calls everything public with values that it does not expect, and tells what came of it as JSON.

A program of its own, since what it looks for is the end of the process: whoever runs it sees a signal, or the stacks of a call that did
not end. The call under way is in the file `call` of the folder that it runs in. The same calls are made twice: what the second round
leaves behind is told, too.
"""

import faulthandler
import gc
import inspect
import json
import random
import re
import resource
import sys

import numpy as np

import starling as sl
from memory import resident, threads

LONGEST_S = 60  # of a call
ROOM = 2 << 30  # bytes of address space beyond those that are there: larger tensors are refused by the system
WAITS_OR_STARTS = {"while_loop", "compile", "spawn"}  # loops for ever where the condition holds; the others are tested by themselves
# Ops that wait for other threads, or end the process by design, are not called.
OF_OPS = {"dequeue", "enqueue", "barrier"}


class Raises:
    """Whatever is asked of it raises."""

    def fails(self, *_):
        raise LookupError("not today")

    __index__ = __float__ = __len__ = __iter__ = __getitem__ = __bool__ = __array__ = __eq__ = fails
    __hash__ = None


class IndexRaises:
    def __index__(self):
        raise LookupError("not today")


class Index:
    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


class Lies:
    """Claims to be an array."""

    shape, dtype, ndim = (2, 3), np.dtype("f4"), 2

    def __array__(self, dtype=None, copy=None):
        return "no array"


class Shrinks(list):
    """A list that is shorter each time it is looked at."""

    def __len__(self):
        return super().__len__() + 1

    def __getitem__(self, i):
        self.clear()
        return super().__getitem__(i)


def read_only():
    array = np.arange(6, dtype=np.float32)
    array.flags.writeable = False
    return array


def tensors():
    x = sl.normal((2, 3))
    return [
        lambda: sl.normal((2, 3)), lambda: sl.normal((3,)), lambda: sl.tensor(2.0), lambda: sl.ones((0,)), lambda: sl.normal((2, 3, 4, 4)),
        lambda: sl.tensor([0, 2, 1]), lambda: sl.tensor([[0, 9], [-9, 1]]), lambda: x > 0, lambda: sl.normal((2, 3), dtype="f64"), lambda: x.T,
        lambda: sl.normal((2, 3)).requires_grad_(), lambda: sl.ones((2, 3), "f16"), lambda: sl.ones(3, "u64"), lambda: sl.ones((3, 3), "i8"),
        lambda: sl.full((2, 3), float("nan")), lambda: sl.normal((3, 3)), lambda: sl.broadcast_to(x, (2, 2, 3)), lambda: sl.ones((2, 0, 3)),
        lambda: sl.ones((1,) * 8), lambda: sl.from_numpy(read_only()),
    ]  # fmt: skip


def others():
    net = sl.nn.Linear(3, 2)
    return [
        *(lambda value=value: value for value in (
            None, True, False, 0, 1, -1, 2, 3, 7, 1 << 20, 1 << 31, 1 << 62, 1 << 63, -(1 << 63), 1 << 100, 0.0, 0.5, -1.5, float("nan"),
            float("inf"), 1e308, 1j, "", "text", "mean", "none", "f32", "i64", "cpu", "cuda:7", "bij,bjk->bik", "\0", "ä" * 300, b"x", (), (2, 3), (-1,), (0,),
            (1 << 40, 1 << 40), (1,) * 9, (1, -2), (0, 1), sl.f32, sl.i64, sl.Device("cpu"), slice(None), slice(1, None, -1), slice(0, 1 << 62),
            Ellipsis, NotImplemented, int, np.float32, np.dtype("f4"), np.float64(2), np.int64(-3), range(3), len, type, sl, sl.nn.Linear,
            Index(2), Index(1 << 70), Index(-(1 << 62)), net,
        )),
        list, dict, set, object, Raises, IndexRaises, Lies, read_only, lambda: [1, 2], lambda: [[]], lambda: [1.0, [2]], lambda: [None], lambda: [0] * 40,
        lambda: {"a": 1}, lambda: iter([1]), lambda: (x for x in "ab"), lambda: (lambda *given: given[0] if given else None), lambda: fails,
        lambda: np.zeros(0), lambda: np.arange(6.0)[::-1], lambda: np.ones((2, 3), "f4")[:, ::-1], lambda: np.array(["a"]), lambda: np.array([1j]),
        lambda: np.array([None]), lambda: np.ones(2, ">f4"), lambda: np.zeros((1,) * 13), lambda: np.zeros(2, "i4,f4"), lambda: np.array(1.0),
        lambda: np.zeros(3, "M8[s]"), lambda: np.frombuffer(b"\0" * 17, np.uint8)[1:].view("f4"), lambda: memoryview(b"abcd"), lambda: bytearray(4),
        lambda: Shrinks([1, 2]), lambda: np.lib.stride_tricks.as_strided(np.ones(3, "f4"), (3, 3), (4, 4)), lambda: [sl.ones(2), 1], lambda: [sl.ones(2), sl.ones(3)],
        lambda: [sl.ones((2, 2)), None],
    ]  # fmt: skip


def fails(*_, **__):
    raise LookupError("not today")


def public(holder):
    for name in sorted(vars(holder)):
        value = getattr(holder, name)
        if not name.startswith("_") and callable(value) and name not in WAITS_OR_STARTS and not inspect.ismodule(value):
            yield name, value


INTS = (0, 1, -1, 2, 3, 5, 100, 1 << 20, (1 << 31) - 1, 1 << 31, 1 << 40, 1 << 62, (1 << 63) - 1, -(1 << 31), -(1 << 63))
ODD = {
    "bool": (True, False),
    "int": INTS,
    "float": (0.0, -0.0, 0.5, 1.0, -1.0, 2.0, 1e-300, 1e300, float("inf"), float("-inf"), float("nan")),
    "str": ("", "mean", "sum", "none", "max", "nearest", "reflect", "left", "tanh", "f32", "x", "\0"),
    "tuple": tuple((i,) for i in INTS) + tuple((i, j) for i in INTS[:7] for j in INTS) + ((), (1, 2, 3), (0, 0, 0, 0), (1, 1, 1, 1, 1, 1, 1, 1), (2, 1, 0), (1 << 62, 4)),
    "DType": tuple(map(sl.dtype, "f64 f32 f16 bf16 i64 i32 i16 i8 u64 u32 u16 u8 bool".split())),
}


def words_of(function):
    """Names of arguments and their defaults."""
    try:
        return {name: one.default for name, one in inspect.signature(function).parameters.items() if name.isidentifier()}
    except (TypeError, ValueError):  # of the compiled part: as its docstring begins
        text = (getattr(function, "__doc__", None) or "").partition("->")[0]
        kinds = {"bool": True, "int": 0, "float": 0.0, "str": "", "int | Sequence[int]": (), "DTypeLike": sl.f32}
        found = re.findall(r"(\w+): ([^,=)]+)", text)
        return {name: kinds.get(kind.strip().removesuffix(" | None")) for name, kind in found if name != "self"}


def targets():
    """(name, how it is called, tensors to begin with, words)."""
    xp = sl.ones(1).__array_namespace__()
    for holder in (sl, sl.nn, sl.nn.functional, sl.nn.init, sl.optim, sl.schedules, sl.metrics, sl.control, xp, xp.linalg):
        place = holder.__name__
        for name, value in public(holder):
            layer = holder is sl.nn and isinstance(value, type) and issubclass(value, sl.nn.ModuleBase)
            yield f"{place}.{name}", (called_layer(value) if layer else value), 0 if layer else 1, words_of(value)
    for name, op in sl._starling.all_ops().items():
        if name not in OF_OPS:
            yield f"sl.op.{name}", op, max(1, len(op.inputs)), {**op.attributes, **{one.rstrip("?."): None for one in op.inputs if one.endswith("?")}}
    for name in sorted(dir(sl.Tensor)):
        if name not in ("__class__", "__del__", "__init_subclass__", "__subclasshook__", "__new__", "__init__", "__getattribute__", "__setattr__", "__delattr__"):
            method = getattr(sl.Tensor, name)
            if callable(method):
                yield f"sl.Tensor.{name}", method, 1, words_of(method)


def called_layer(kind):
    def call(*arguments, **keywords):
        layer = kind(*arguments, **keywords)
        return layer(sl.normal((2, 3)))

    return call


class Calls:
    def __init__(self, seed):
        self.draw = random.Random(seed)
        self.tensors, self.others = tensors(), others()
        self.all = list(targets())
        self.told = open("call", "w+b", buffering=0)
        self.came = {}

    def value(self):
        return self.draw.choice(self.tensors if self.draw.random() < 0.4 else self.others)()

    def arguments(self, begin, words):
        """Mostly tensors where they belong and one or two things that do not; sometimes nothing that belongs."""
        draw = self.draw
        if draw.random() < 0.2:
            positional = [self.value() for _ in range(draw.randrange(4))]
        else:
            alike = draw.choice(self.tensors)
            positional = [(alike if draw.random() < 0.6 else draw.choice(self.tensors))() for _ in range(begin)]
            if draw.random() < 0.2:
                positional.insert(draw.randrange(len(positional) + 1), self.value())
            elif positional and draw.random() < 0.2:
                positional[draw.randrange(len(positional))] = self.value()
        chosen = [draw.choice(list(words)) for _ in range(draw.choice((0, 1, 1, 1, 2, 3)))] if words else []
        return positional, {word: self.like(words[word]) for word in chosen}

    def like(self, default):
        """Mostly a value of the default's type, but an odd one."""
        kind = type(default).__name__
        return self.draw.choice(ODD[kind]) if kind in ODD and self.draw.random() < 0.8 else self.value()

    def one(self):
        name, function, begin, words = self.draw.choice(self.all)
        positional, keywords = self.arguments(begin, words)
        self.told.seek(0)
        self.told.truncate()
        self.told.write(f"{name}({', '.join(map(shown, positional))}; {', '.join(f'{k}={shown(v)}' for k, v in keywords.items())})".encode())
        try:
            result = function(*positional, **keywords)
            if isinstance(result, sl.Tensor) and result.size < 1000:
                repr(result)
            came = "result"
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            came = type(error).__name__
            str(error)
        self.came[came] = self.came.get(came, 0) + 1


def shown(value):
    if isinstance(value, sl.Tensor):
        return f"{value.dtype.name}{list(value.shape)}"
    try:
        return repr(value)[:60]
    except BaseException as error:  # noqa: BLE001 - of what raises whatever is asked of it
        return f"<{type(value).__name__} {type(error).__name__}>"


def round_of(seed, calls):
    sl.manual_seed(1)
    made = Calls(seed)
    for i in range(calls):
        if i % 50 == 0:
            faulthandler.dump_traceback_later(LONGEST_S, exit=True)
        made.one()
    made.told.close()
    return made.came


def main(seed, calls):
    faulthandler.enable()
    with open("/proc/self/statm") as file:
        own = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (own + ROOM, own + ROOM))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    came = round_of(seed, calls)
    round_of(seed, calls)
    gc.collect()
    before = resident(), len(gc.get_objects()), threads()
    again = round_of(seed, calls)
    gc.collect()
    faulthandler.cancel_dump_traceback_later()
    kept = [now - then for now, then in zip((resident(), len(gc.get_objects()), threads()), before)]
    # Everything works as before.
    net = sl.nn.Linear(3, 2)
    optimizer = sl.optim.SGD(net.parameters(), lr=0.1)
    sl.cross_entropy(net(sl.ones((4, 3))), sl.zeros((4,), "i64")).backward()
    optimizer.step()
    print(json.dumps({"came": came, "again": again, "kept": kept, "targets": len(list(targets()))}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
