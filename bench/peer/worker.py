"""One peer mode in one process: `python -m peer.worker NET MODE PHASE THREADS BATCH`, commands as JSON lines on stdin.

{"do": "losses", "file": F} → {"losses": [...]}    the losses of 20 steps from the weights and batch in F
{"do": "prepare"}           → {"variant": V, ...}  compiles, tries every variant, keeps the fastest
{"do": "slice", "seconds": S} → {"step_ms", "p10_ms", "steps"}
Between commands it sleeps in a read; OpenMP's default spinning ends within milliseconds and is left as PyTorch has it.
"""

import json
import os
import sys
import time

import torch
from safetensors import safe_open

from peer import clock, modes, nets
from peer.catalogue import LOSS_STEPS, with_batch

TRIAL_PASSES = 3
TRIAL_SECONDS = 0.3
SETTLE_SECONDS = 0.3


class Worker:
    def __init__(self, net, mode: str, phase: str):
        self.net, self.mode, self.phase = net, mode, phase
        self.step = None

    def losses(self, file: str) -> dict:
        with safe_open(file, framework="pt") as f:
            tensors = {name: f.get_tensor(name) for name in f.keys()}
            metadata = f.metadata()
        _, x, y = nets.load_exported(self.net.name, tensors, metadata)
        variants = modes.train_variants(
            self.mode, self.net.is_cnn, lambda: nets.load_exported(self.net.name, tensors, metadata)[0], x, y)
        step = next(iter(variants.values()))
        return {"losses": [step().item() for _ in range(LOSS_STEPS)]}

    def prepare(self) -> dict:
        torch.manual_seed(0)
        x, y = nets.random_batch(self.net)
        make = lambda: nets.build(self.net.name)
        if self.phase == "train":
            variants = modes.train_variants(self.mode, self.net.is_cnn, make, x, y)
        else:
            variants = modes.forward_variants(self.mode, self.net.is_cnn, make, x)
        trials = self.trials(variants)
        best = min(trials, key=trials.get)
        self.step = variants[best]
        return {"variant": best, "trials_ms": trials, "torch": torch.__version__}

    def trials(self, variants: dict) -> dict:
        """Median ms of each variant over a few interleaved passes; a first call outside them compiles."""
        for step in variants.values():
            step()
        passes = {name: [] for name in variants}
        for _ in range(TRIAL_PASSES if len(variants) > 1 else 1):
            for name, step in variants.items():
                passes[name].append(clock.time_slice(step, TRIAL_SECONDS)["step_ms"])
        return {name: sorted(times)[len(times) // 2] for name, times in passes.items()}

    def slice(self, seconds: float) -> dict:
        result = clock.time_slice(self.step, seconds)
        time.sleep(SETTLE_SECONDS)  # the OpenMP team stops spinning before the other side starts
        return result


def main() -> None:
    net, mode, phase, threads, batch = sys.argv[1:6]
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever libraries print goes to stderr, so that stdout carries replies only
    torch.set_num_threads(int(threads))
    worker = Worker(with_batch(net, int(batch)), mode, phase)
    for line in sys.stdin:
        command = json.loads(line)
        action = getattr(worker, command.pop("do"))
        try:
            reply = action(**command)
        except Exception as error:  # told to the caller, who decides
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), file=replies)


if __name__ == "__main__":
    main()
