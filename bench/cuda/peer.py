#!/usr/bin/env python3
"""PyTorch's training step on a GPU, the whole of it captured in one CUDA graph: one JSON line per net and mode.

Modes: graph-fused and graph-foreach (eager code, captured, with that optimizer), graph-channels-last (of CNNs: graph-fused
with pictures and filters in that order), graph-compiled (network and loss by torch.compile, captured, fused optimizer) and
graph-compiled-channels-last (of CNNs: both). Products and convolutions in tf32, or in 16 bits by autocast with --precision;
SGD with momentum 0.9, as ours. --phase forward measures inference.
"""

import argparse
import gc
import json
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import torch  # noqa: E402
from peer import nets  # noqa: E402
from peer.catalogue import NETS, with_batch  # noqa: E402
from peer.clock import percentile  # noqa: E402

MODES = ["graph-fused", "graph-foreach", "graph-channels-last", "graph-compiled", "graph-compiled-channels-last"]
TYPES = {"bf16": torch.bfloat16, "f16": torch.float16}
WARM_UP_STEPS = 5
REPLAYS_PER_SAMPLE = 20


def captured_step(net: str, batch: int, mode: str, precision: str, phase: str):
    """A function that replays one training step, or forward pass."""
    device = torch.device("cuda")
    model = nets.build(net).to(device)
    x, y = (field.to(device) for field in nets.random_batch(with_batch(net, batch)))
    if mode.endswith("channels-last"):
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    fast = {"foreach": True} if mode == "graph-foreach" else {"fused": True}
    model.train(phase == "train")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, **fast)

    def autocast():
        return torch.autocast("cuda", TYPES.get(precision, torch.bfloat16), enabled=precision != "f32", cache_enabled=False)

    def loss_of(x, y):
        with autocast():
            return nets.loss(model(x), y) if phase == "train" else model(x)

    loss_of = torch.compile(loss_of) if mode.startswith("graph-compiled") else loss_of

    def forward():
        with torch.no_grad():
            return loss_of(x, y).float().sum()

    def step():
        if phase == "forward":
            return forward()
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
        return loss

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UP_STEPS):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    graph.replay()
    torch.cuda.synchronize()
    if not torch.isfinite(loss):
        raise RuntimeError(f"{net}: expected a finite loss, got {loss.item()}")
    return graph.replay


def timed(replay, samples: int) -> dict:
    """Milliseconds of a step: device events around runs of replays, so that the host's launches overlap as in training."""
    for _ in range(3 * REPLAYS_PER_SAMPLE):
        replay()
    torch.cuda.synchronize()
    times = []
    for _ in range(samples):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(REPLAYS_PER_SAMPLE):
            replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / REPLAYS_PER_SAMPLE)
    return {"step_ms": statistics.median(times), "p10_ms": percentile(times, 0.1), "steps": samples * REPLAYS_PER_SAMPLE}


def measured(net: str, batch: int, mode: str, options) -> dict:
    row = {"who": "pytorch", "net": net, "batch": batch, "dtype": options.precision, "phase": options.phase, "mode": mode,
           "device": torch.cuda.get_device_name(), "version": torch.__version__}
    torch._dynamo.reset()
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    try:
        row |= timed(captured_step(net, batch, mode, options.precision, options.phase), options.samples)
        return row | {"peak_bytes": torch.cuda.max_memory_allocated(), "reserved_bytes": torch.cuda.max_memory_reserved()}
    except Exception as error:  # a mode that this installation cannot run is reported, not hidden
        return row | {"error": f"{type(error).__name__}: {str(error)[:300]}"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", default="mlp,sae_small,sae_big")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--batch", type=int, default=0, help="0: as published")
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--precision", default="f32", choices=["f32", *TYPES])
    parser.add_argument("--phase", default="train", choices=["train", "forward"])
    args = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    for net in args.nets.split(","):
        for mode in args.modes.split(","):
            if mode.endswith("channels-last") and not NETS[net].is_cnn:
                continue
            torch.manual_seed(7)
            print(json.dumps(measured(net, args.batch or NETS[net].batch, mode, args)), flush=True)


if __name__ == "__main__":
    main()
