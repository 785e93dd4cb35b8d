"""PyTorch's memory for one training step: `python -m peer.memory_worker NET MODE THREADS BATCH` prints one JSON line.

The leanest it has: gradients freed as soon as they are used (set_to_none), the fused optimizer. The peak is the
process's own high-water mark of physical memory, above what it had once PyTorch was loaded and warm.
"""

import json
import sys

import torch

from peer import modes, nets
from peer.catalogue import with_batch

STEPS = 3


def status_bytes(key: str) -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(key + ":"))


def warm_up() -> None:
    """One tiny step through the layers that networks have: threads are there and the libraries' code is in memory
    before the baseline is taken, so that only what the network itself needs counts."""
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(2),
        torch.nn.Linear(9, 16), torch.nn.LayerNorm(16), torch.nn.GELU(), torch.nn.LSTM(16, 16))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, fused=True)
    for memory_format in (torch.contiguous_format, torch.channels_last):
        x = torch.randn(4, 3, 8, 8).contiguous(memory_format=memory_format)
        y = model.to(memory_format=memory_format)(x)[0]
        y = torch.nn.functional.scaled_dot_product_attention(y, y, y, is_causal=True)
        nets.loss(y, torch.zeros(y.shape[:2], dtype=torch.int64)).backward()
        optimizer.step()


def main() -> None:
    name, mode, threads, batch = sys.argv[1:5]
    torch.set_num_threads(int(threads))
    net = with_batch(name, int(batch))
    warm_up()
    base = status_bytes("VmRSS")
    with open("/proc/self/clear_refs", "w") as refs:
        refs.write("5")  # the high-water mark falls back to what is held now
    x, y = nets.random_batch(net)
    memory_format = "channels_last" if mode == "channels_last" else "contiguous"
    model, x = modes.placed(nets.build(name), x, memory_format)
    optimizer = torch.optim.SGD(model.parameters(), lr=modes.LEARNING_RATE, momentum=modes.MOMENTUM, fused=True)
    step = modes.train_step(lambda x, y: nets.loss(model(x), y), model, x, y, optimizer.step)
    for _ in range(STEPS):
        step()
    print(json.dumps({"mode": mode, "peak_bytes": status_bytes("VmHWM") - base, "base_bytes": base,
                      "torch": torch.__version__}))


if __name__ == "__main__":
    main()
