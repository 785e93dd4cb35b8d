"""What the two sides must agree on for each network: batch, input shape, labels. Needs no PyTorch."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Net:
    name: str
    batch: int
    shape: tuple  # of one sample, channels first
    classes: int
    vocabulary: int = 0  # inputs are token ids below this; 0: inputs are floats
    label_per_token: bool = False  # labels have the shape of the sample; else there is one a sample

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
    Net("resnet18", 16, (3, 224, 224), 1000),
    Net("resnet34", 16, (3, 224, 224), 1000),
    Net("resnet50", 16, (3, 224, 224), 1000),
    Net("lstm", 16, (100,), 2, vocabulary=10_000),
    Net("gpt", 8, (256,), 65, vocabulary=65, label_per_token=True),
    Net("gpt2", 16, (1024,), 50304, vocabulary=50304, label_per_token=True),
]}

MODES = ["eager", "channels_last", "compile"]  # PyTorch's
OTHER_MODES = {"jax": ["jit"], "tensorflow": ["graph", "xla"]}
PEERS = ["pytorch", *OTHER_MODES]

LEARNING_RATE = 0.01
MOMENTUM = 0.9
LOSS_STEPS = 20
LOSS_TOLERANCE = 1e-3


def with_batch(name: str, batch: int) -> Net:
    """The network with another number of samples in a batch; 0: as published."""
    return replace(NETS[name], batch=batch) if batch else NETS[name]


def modes_for(net: Net, wanted: list) -> list:
    """The wanted modes that mean something for this network: channels_last is for CNNs."""
    return [mode for mode in wanted if mode != "channels_last" or net.is_cnn]
