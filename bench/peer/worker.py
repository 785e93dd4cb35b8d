"""PyTorch in one mode: `python -m peer.worker NET MODE PHASE THREADS BATCH`; the commands are in serving.py."""

import sys

import torch
from safetensors import safe_open

from peer import modes, nets
from peer.catalogue import LOSS_STEPS, with_batch
from peer.serving import Worker, serve


class TorchWorker(Worker):
    def version(self) -> str:
        return torch.__version__

    def losses(self, file: str) -> dict:
        with safe_open(file, framework="pt") as f:
            tensors = {name: f.get_tensor(name) for name in f.keys()}
            metadata = f.metadata()
        _, x, y = nets.load_exported(self.net.name, tensors, metadata)
        variants = modes.train_variants(
            self.mode, self.net.is_cnn, lambda: nets.load_exported(self.net.name, tensors, metadata)[0], x, y)
        step = next(iter(variants.values()))
        return {"losses": [step().item() for _ in range(LOSS_STEPS)]}

    def variants(self) -> dict:
        torch.manual_seed(0)
        x, y = nets.random_batch(self.net)
        make = lambda: nets.build(self.net.name)
        if self.phase == "train":
            return modes.train_variants(self.mode, self.net.is_cnn, make, x, y)
        return modes.forward_variants(self.mode, self.net.is_cnn, make, x)


def main() -> None:
    net, mode, phase, threads, batch = sys.argv[1:6]
    torch.set_num_threads(int(threads))
    serve(TorchWorker(with_batch(net, int(batch)), mode, phase))


if __name__ == "__main__":
    main()
