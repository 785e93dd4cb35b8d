"""The peer's end of compare_ops.py: one PyTorch process that prepares, checks and times one op after another.

The same requests as bench/ops/ops.cpp: prepare (by the number of the case), values, slice.
"""

import json
import sys

import torch
from safetensors.torch import load_file, save_file

from peer.clock import time_slice
from peer.op_cases import CASES


class Worker:
    def __init__(self, threads: int):
        torch.set_num_threads(threads)
        self.case, self.inputs, self.seed = None, [], None

    def prepare(self, number, file, channels_last=False, **_):
        self.case = CASES[number]
        tensors = load_file(file)
        self.inputs = [tensors[f"in{i}"] for i in range(len(self.case.operands))]
        if channels_last:
            self.inputs = [x.to(memory_format=torch.channels_last) if x.dim() == 4 else x for x in self.inputs]
        for x, wanted in zip(self.inputs, self.case.grads):
            x.requires_grad_(wanted)
        with torch.no_grad():
            y = self.case.torch(*self.inputs)
        seed = (torch.arange(y.numel()) * 37 % 101).double() / 101 - 0.3  # as bench/ops/ops.cpp has it
        self.seed = seed.reshape(y.shape).to(y.dtype).contiguous()
        if channels_last and y.dim() == 4:
            self.seed = self.seed.to(memory_format=torch.channels_last)
        return {"ok": True, "torch": torch.__version__}

    def forward(self):
        with torch.inference_mode():
            self.case.torch(*self.inputs)

    def train(self):
        y = self.case.torch(*self.inputs)
        wanted = [x for x in self.inputs if x.requires_grad]
        return [y, *torch.autograd.grad(y, wanted, self.seed)] if wanted else [y]

    def values(self, file, **_):
        results = [y.detach().contiguous() for y in self.train()]
        save_file({f"out{i}": y for i, y in enumerate(results)}, file)
        return {"count": len(results)}

    def slice(self, phase, seconds, **_):
        times = time_slice(self.train if phase == "train" else self.forward, seconds)
        return {"ms": times["step_ms"], "p10_ms": times["p10_ms"], "calls": times["steps"]}


def main():
    worker = Worker(int(sys.argv[1]))
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = getattr(worker, request.pop("do"))(**request)
        except Exception as error:  # the caller decides what a failure means
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
