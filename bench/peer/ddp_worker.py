"""PyTorch as one of two data-parallel ranks, or alone: `python -m peer.ddp_worker NET RANK [ADDRESS:PORT]`.

With an address: DistributedDataParallel over Gloo, world 2. Every line on stdin is a number of steps, each answer a JSON
line, as `starling bench --on-request` has it. One thread; SGD with momentum, the fused form; memory channels last for
CNNs.
"""

import json
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from peer import clock, modes, nets
from peer.catalogue import LEARNING_RATE, MOMENTUM, NETS

WARM_UP_STEPS = 5  # DDP makes its buckets anew after the first


def make_step(net, rank: int, together: bool):
    torch.manual_seed(0)
    model = nets.build(net.name)
    torch.manual_seed(rank)
    x, y = nets.random_batch(net)
    model, x = modes.placed(model, x, "channels_last" if net.is_cnn else "contiguous")
    if together:
        model = DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM, fused=True)

    def step():
        optimizer.zero_grad(set_to_none=not together)  # views of buckets stay
        loss = nets.loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss
    return step


def timed(step, steps: int) -> dict:
    step()
    times, start = [], time.perf_counter()
    for _ in range(steps):
        before = time.perf_counter()
        step()
        times.append((time.perf_counter() - before) * 1e3)
    mean = (time.perf_counter() - start) * 1e3 / steps
    return {"steps": steps, "mean_ms": mean, "step_ms": clock.percentile(times, 0.5),
            "p10_ms": clock.percentile(times, 0.1)}


def main() -> None:
    name, rank, address = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    torch.set_num_threads(1)
    if address:
        dist.init_process_group("gloo", init_method=f"tcp://{address[0]}", rank=rank, world_size=2)
    step = make_step(NETS[name], rank, bool(address))
    for _ in range(WARM_UP_STEPS):
        step()
    print(json.dumps({"rank": rank, "backend": "gloo" if address else "none", "version": torch.__version__}), flush=True)
    for line in sys.stdin:
        print(json.dumps(timed(step, int(line))), flush=True)


if __name__ == "__main__":
    main()
