"""Speaks the protocol of `starling bench` from PyTorch itself, at a fixed speed, so that compare.py can be tested.

FAKE_STARLING_FAULT makes it misbehave: losses, nan, short, shapes, garbage, crash, threads.
"""

import argparse
import json
import os
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from peer import modes, nets
from peer.catalogue import NETS, with_batch

FAULT = os.environ.get("FAKE_STARLING_FAULT", "")
STEP_MS = 0.5
RSS_BYTES = 5_000_000


def export(net: str, batch: int, file: str) -> None:
    torch.manual_seed(1)
    model = nets.build(net)
    tensors = {name: value.detach().clone() for name, value in model.named_parameters()}
    buffers = {name: value.clone() for name, value in model.named_buffers() if value.is_floating_point()}
    metadata = {"order": ",".join(tensors), "buffers": ",".join(buffers)}
    tensors.update(buffers)
    if FAULT == "shapes":
        tensors["0.weight"] = tensors["0.weight"][1:].contiguous()
    tensors["input.x"], tensors["input.y"] = nets.random_batch(with_batch(net, batch))
    save_file(tensors, file, metadata=metadata)


def losses(net: str, file: str, steps: int) -> list:
    with safe_open(file, framework="pt") as f:
        tensors = {name: f.get_tensor(name) for name in f.keys()}
        metadata = f.metadata()
    model, x, y = nets.load_exported(net, tensors, metadata)
    step = modes.train_variants("eager", NETS[net].is_cnn, lambda: model, x, y)["contiguous+fused"]
    values = [step().item() for _ in range(steps)]
    if FAULT == "losses":
        values[-1] += 0.01
    if FAULT == "nan":
        values[-1] = float("nan")
    return values[:-1] if FAULT == "short" else values


def timing(options) -> dict:
    threads = options.threads + (FAULT == "threads")
    return {"net": options.net, "batch": options.batch, "threads": threads, "device": options.device,
            "dtype": options.dtype, "phase": options.phase, "mode": options.mode, "step_ms": STEP_MS,
            "p10_ms": STEP_MS * 0.9, "samples_per_s": options.batch / STEP_MS * 1e3, "peak_bytes": 1 << 20,
            "rss_bytes": RSS_BYTES, "program_bytes": 1 << 19, "variable_bytes": 1 << 18}


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["bench"])
    parser.add_argument("net", choices=list(NETS))
    for name, kind in [("batch", int), ("threads", int), ("device", str), ("dtype", str), ("phase", str),
                       ("mode", str), ("seconds", float), ("budget", float), ("export", str), ("import", str),
                       ("losses", int)]:
        parser.add_argument(f"--{name}", type=kind)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def main() -> None:
    options = parse_arguments()
    imported = getattr(options, "import")
    if FAULT == "crash":
        sys.exit("fake starling: asked to crash")
    if options.export:
        export(options.net, options.batch, options.export)
    elif FAULT == "garbage":
        print("no JSON here")
    elif imported:
        print(json.dumps({"net": options.net, "losses": losses(options.net, imported, options.losses)}))
    else:
        print(json.dumps(timing(options)))


if __name__ == "__main__":
    main()
