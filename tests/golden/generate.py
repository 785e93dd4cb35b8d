#!/usr/bin/env python3
"""Writes tests/golden/data: what PyTorch computes for the sample calls of every op.

    python3 tests/golden/generate.py --tests build/ci/tests/test_ops [--only family,...]

The test program writes its sample calls to a folder; each op's function in torch_ops/<family>.py computes the results in
double precision; calls and results go to data/<family>.safetensors. An op may give a string instead of a function: why
there is nothing to compare it with; these go to absent.json. Needs numpy and PyTorch 2.x.
"""

import argparse
import importlib
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy
import torch

HERE = pathlib.Path(__file__).resolve().parent
TYPES = {"F64": numpy.float64, "F32": numpy.float32, "I64": numpy.int64, "I32": numpy.int32, "I16": numpy.int16,
         "I8": numpy.int8, "U8": numpy.uint8, "BOOL": numpy.bool_}
MOST_CALLS = 8  # of one op
MOST_ELEMENTS = 600  # of one call, results included


def read_safetensors(path):
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        values = numpy.frombuffer(data[8 + size + begin:8 + size + end], TYPES[entry["dtype"]])
        tensors[name] = values.reshape(entry["shape"])
    return tensors, metadata


def write_safetensors(path, tensors, metadata):
    names = {numpy.dtype(t): n for n, t in TYPES.items()}
    order = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    header, blobs, at = {"__metadata__": metadata}, [], 0
    for name in order:
        blob = numpy.ascontiguousarray(tensors[name]).tobytes()
        header[name] = {"dtype": names[tensors[name].dtype], "shape": list(tensors[name].shape),
                        "data_offsets": [at, at + len(blob)]}
        blobs.append(blob)
        at += len(blob)
    text = json.dumps(header, sort_keys=True).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def parse(text):
    """An attribute from its text: a number, a bool, a list, a string; the name of a dtype stays a string."""
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


def stored(tensor):
    array = tensor.detach().contiguous().numpy()
    if array.dtype.kind == "f":
        return array.astype(numpy.float32)
    if array.dtype.kind == "b":
        return array
    return array.astype(numpy.int64)


def off_default_first(metadata):
    """Calls in an order that shows every attribute's every value early."""
    seen, first, later = set(), [], []
    for name in sorted(metadata, key=int):
        values = set(json.loads(metadata[name])["attrs"].items())
        (first if not seen or values - seen else later).append(name)
        seen |= values
    return first + later


def values_of(op, function, folder, tensors, metadata):
    path = folder / f"{op}.safetensors"
    if not path.exists():
        print(f"{op}: no such op in the test program", file=sys.stderr)
        return
    operands, calls = read_safetensors(path)
    taken = 0
    for name in off_default_first(calls):
        given = json.loads(calls[name])
        raw = [operands[f"{name}/in{i}"] for i in range(len(given["dtypes"]))]
        inputs = [torch.from_numpy(x.copy()) for x in raw]
        inputs = [x.double() if x.is_floating_point() else x for x in inputs]
        try:
            results = function(inputs, {key: parse(text) for key, text in given["attrs"].items()})
        except Exception as error:
            raise RuntimeError(f"{op} case {name} with {given}, shapes {[x.shape for x in raw]}") from error
        out = {f"{op}/{name}/out{i}": stored(y) for i, y in enumerate(results) if y is not None}
        if sum(x.size for x in raw) + sum(y.size for y in out.values()) > MOST_ELEMENTS or taken == MOST_CALLS:
            continue
        taken += 1
        tensors.update(out)
        tensors.update({f"{op}/{name}/in{i}": x for i, x in enumerate(raw)})
        metadata[f"{op}/{name}"] = calls[name]


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--tests", required=True, help="the program test_ops")
    options.add_argument("--only", default="", help="families, with commas between them")
    options = options.parse_args()
    torch.manual_seed(0)
    sys.path.insert(0, str(HERE))
    families = sorted(path.stem for path in (HERE / "torch_ops").glob("*.py") if path.stem != "__init__")
    absent = {}
    (HERE / "data").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run([options.tests, "--gtest_filter=Golden.SampleCalls*"], check=True, stdout=subprocess.DEVNULL,
                       env=os.environ | {"STARLING_DUMP_CASES": name})
        for family in families:
            module = importlib.import_module(f"torch_ops.{family}")
            absent.update({op: why for op, why in module.OPS.items() if isinstance(why, str)})
            if options.only and family not in options.only.split(","):
                continue
            tensors, metadata = {}, {}
            for op, function in sorted(module.OPS.items()):
                if callable(function):
                    values_of(op, function, folder, tensors, metadata)
            write_safetensors(HERE / "data" / f"{family}.safetensors", tensors, metadata)
            print(f"{family}: {len(metadata)} calls of {len(module.OPS)} ops")
    (HERE / "absent.json").write_text(json.dumps(absent, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
