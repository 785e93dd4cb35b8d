#!/usr/bin/env python3
"""Writes tests/golden/layers: what PyTorch's modules compute, forward and backward, for layers of ours.

    python3 tests/golden/generate_layers.py [--only conv,...]

A case holds inputs, parameters by our names, buffers before and after, outputs, a gradient of the first output and what
becomes of it in parameters and inputs; the metadata says the layer's kind and its options as YAML. Computed in double
precision from numbers that f32 holds. Needs numpy and PyTorch 2.x.
"""

import argparse
import importlib
import json
import pathlib
import sys

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from generate import stored, write_safetensors  # noqa: E402


def rounded(tensor):
    """Doubles that f32 holds."""
    return tensor.float().double() if tensor.is_floating_point() else tensor


class File:
    """The cases of one family."""

    def __init__(self):
        self.tensors, self.metadata = {}, {}

    def add(self, kind, options, module, inputs, names=None, train=True, samples=None, call=None):
        """`names` maps our parameter names to PyTorch's, or to (PyTorch's, begin, end) for a piece of one."""
        name = f"{kind}/{sum(key.startswith(kind + '/') for key in self.metadata)}"
        module = module.double().train(train)
        module.zero_grad()
        if names is None:
            names = {own: own for own, _ in module.named_parameters()}
        parameters = dict(module.named_parameters())
        with torch.no_grad():
            for parameter in parameters.values():
                parameter.copy_(rounded(torch.randn_like(parameter) * 0.5))
            for buffer_name, buffer in module.named_buffers():
                if buffer.is_floating_point():
                    buffer.copy_(rounded(torch.rand_like(buffer) + 0.5))
        buffers = {own: value.clone() for own, value in module.named_buffers() if value.is_floating_point()}
        inputs = [x if x is None else rounded(x) for x in inputs]
        leaves = [x.clone().requires_grad_() if x is not None and x.is_floating_point() else x for x in inputs]
        outputs = (call or (lambda m, *xs: m(*xs)))(module, *leaves)
        outputs = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
        seed = rounded(torch.randn_like(outputs[0]))
        outputs[0].backward(seed)

        def piece(entry, pick):
            torch_name, begin, end = entry if isinstance(entry, tuple) else (entry, None, None)
            return pick(parameters[torch_name])[begin:end]

        kept = {f"in{i}": x for i, x in enumerate(inputs) if x is not None}
        kept |= {f"out{i}": y for i, y in enumerate(outputs)}
        kept |= {f"param/{own}": piece(entry, lambda p: p) for own, entry in names.items()}
        kept |= {f"grad/{own}": piece(entry, lambda p: p.grad) for own, entry in names.items()}
        kept |= {f"grad_in{i}": x.grad for i, x in enumerate(leaves)
                 if x is not None and x.is_floating_point() and x.grad is not None}
        kept |= {f"before/{own}": value for own, value in buffers.items()}
        kept |= {f"after/{own}": value for own, value in module.named_buffers() if own in buffers}
        kept["seed"] = seed
        for key, value in kept.items():
            self.tensors[f"{name}/{key}"] = stored(value.clone())
        self.metadata[name] = json.dumps({"kind": kind, "options": options, "train": train, "inputs": len(inputs),
                                          "samples": samples or len(inputs)})


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--only", default="", help="families, with commas between them")
    only = [word for word in options.parse_args().only.split(",") if word]
    (HERE / "layers").mkdir(exist_ok=True)
    for path in sorted((HERE / "torch_layers").glob("*.py")):
        if only and path.stem not in only:
            continue
        torch.manual_seed(0)
        file = File()
        importlib.import_module(f"torch_layers.{path.stem}").add_cases(file)
        write_safetensors(HERE / "layers" / f"{path.stem}.safetensors", file.tensors, file.metadata)
        print(f"{path.stem}: {len(file.metadata)} cases")


if __name__ == "__main__":
    main()
