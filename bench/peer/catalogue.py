"""What the two sides must agree on for each network: batch, input shape, classes. Needs no PyTorch."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Net:
    name: str
    batch: int
    shape: tuple  # of one sample, channels first
    classes: int

    @property
    def is_cnn(self) -> bool:
        return len(self.shape) == 3


NETS = {net.name: net for net in [
    Net("mlp", 64, (784,), 10),
    Net("sae_small", 64, (784,), 10),
    Net("sae_big", 64, (784,), 10),
    Net("lenet", 64, (1, 28, 28), 10),
    Net("alexnet", 64, (3, 224, 224), 1000),
    Net("alexnet_owt", 128, (3, 224, 224), 1000),
]}

MODES = ["eager", "channels_last", "compile"]

LEARNING_RATE = 0.01
MOMENTUM = 0.9
LOSS_STEPS = 20
LOSS_TOLERANCE = 1e-3


def modes_for(net: Net, wanted: list) -> list:
    """The wanted modes that mean something for this network: channels_last is for CNNs."""
    return [mode for mode in wanted if mode != "channels_last" or net.is_cnn]
