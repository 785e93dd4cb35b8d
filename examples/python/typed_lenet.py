"""LeNet from Python, with types that mypy --strict checks: python typed_lenet.py [SOURCE] [STEPS]."""

from __future__ import annotations

import sys

import starling as sl


class Scaled(sl.nn.Module):
    """A network whose scores are multiplied by a number that is learned too."""

    def __init__(self, net: sl.nn.ModuleBase) -> None:
        super().__init__()
        self.net = net
        self.scale = sl.nn.Parameter(sl.ones(1))

    def forward(self, x: sl.Tensor) -> sl.Tensor:
        scores: sl.Tensor = self.net(x)
        return scores * self.scale


def accuracy(net: sl.nn.ModuleBase, loader: sl.data.Loader) -> float:
    right, total = 0.0, 0
    with sl.no_grad():
        for x, y in loader:
            right += (net(x).argmax(axis=1) == y).float().sum().item()
            total += y.shape[0]
    return right / total


def main(source: str = "fashion_mnist", steps: int = 300) -> None:
    sl.manual_seed(1)
    net = Scaled(sl.zoo.lenet(classes=10))
    optimizer = sl.optim.Adam(net.parameters(), lr=1e-3)
    schedule = sl.schedules.Cosine(optimizer, steps=steps, end=0.1)

    @sl.compile
    def step(x: sl.Tensor, y: sl.Tensor) -> sl.Tensor:
        loss = sl.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    done, loss = 0, 0.0
    while done < steps:
        for x, y in sl.data.Loader(source, batch=64):
            loss = step(x, y).item()
            schedule.step()
            done += 1
            if done == steps:
                break
    net.eval()
    print(f"loss {loss:.3f}, accuracy {accuracy(net, sl.data.Loader(source, batch=500, split='test')):.3f}")


if __name__ == "__main__":
    given = sys.argv[1:]
    main(given[0] if given else "fashion_mnist", int(given[1]) if len(given) > 1 else 300)
