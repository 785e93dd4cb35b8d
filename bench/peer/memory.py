"""How much memory a PyTorch training step takes: `python -m peer.memory NET MODE THREADS`, one JSON line.

Resident memory at its highest during three steps, less what PyTorch itself takes once its kernels are loaded.
"""

import json
import resource
import sys

import torch
import torch.nn.functional as F

from peer import modes, nets
from peer.catalogue import NETS

STEPS = 3


def resident_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


def load_kernels() -> None:
    """One tiny step through the libraries that networks use."""
    conv = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.BatchNorm2d(16), torch.nn.ReLU(),
                               torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(16 * 9, 8))
    sgd = torch.optim.SGD(conv.parameters(), lr=0.1, momentum=0.9, foreach=True)
    F.cross_entropy(conv(torch.randn(2, 3, 8, 8)), torch.zeros(2, dtype=torch.long)).backward()
    sgd.step()


def main(name: str, mode: str, threads: int) -> dict:
    torch.set_num_threads(threads)
    load_kernels()
    net = NETS[name]
    before = resident_bytes()
    x, y = nets.random_batch(net)
    step = next(iter(modes.train_variants(mode, net.is_cnn, lambda: nets.build(name), x, y).values()))
    for _ in range(STEPS):
        step()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"net": name, "mode": mode, "baseline_bytes": before, "peak_bytes": peak - before}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
