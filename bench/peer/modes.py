"""The ways PyTorch can run one step: a mode is a set of variants (memory format × optimizer form)."""

import torch

from peer import nets
from peer.catalogue import LEARNING_RATE, MOMENTUM

FORMATS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}


def formats_of(mode: str, is_cnn: bool) -> list:
    if mode == "channels_last":
        return ["channels_last"]
    if mode == "compile" and is_cnn:
        return ["contiguous", "channels_last"]
    return ["contiguous"]


def placed(model, x, memory_format: str):
    """Model and input in the given memory format (which only four-dimensional tensors have)."""
    model = model.to(memory_format=FORMATS[memory_format])
    return model, x.contiguous(memory_format=FORMATS[memory_format]) if x.dim() == 4 else x


def optimizers_of(mode: str, model) -> dict:
    """The optimizer's forms by name: name → step function, gradients not cleared."""
    def sgd(**form):
        return torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM, **form)

    forms = {"foreach": sgd(foreach=True).step, "fused": sgd(fused=True).step}
    if mode == "compile":
        forms["compiled"] = torch.compile(sgd(foreach=True).step)
    return forms


def train_step(loss_of, model, x, y, optimizer_step):
    def step():
        loss = loss_of(x, y)
        loss.backward()
        optimizer_step()
        model.zero_grad(set_to_none=True)
        return loss
    return step


def train_variants(mode: str, is_cnn: bool, make_model, x, y) -> dict:
    """name → step function (returns the loss before the update). Variants of one format share their model."""
    variants = {}
    for memory_format in formats_of(mode, is_cnn):
        model, placed_x = placed(make_model(), x, memory_format)

        def loss_of(x, y, model=model):
            return nets.loss(model(x), y)

        loss_of = torch.compile(loss_of) if mode == "compile" else loss_of
        for form, optimizer_step in optimizers_of(mode, model).items():
            name = f"{memory_format}+{form}"
            variants[name] = train_step(loss_of, model, placed_x, y, optimizer_step)
    return variants


def forward_variants(mode: str, is_cnn: bool, make_model, x) -> dict:
    """name → function computing the logits in inference mode."""
    variants = {}
    for memory_format in formats_of(mode, is_cnn):
        model, placed_x = placed(make_model(), x, memory_format)
        model.eval()
        run = torch.compile(model) if mode == "compile" else model

        def step(run=run, x=placed_x):
            with torch.inference_mode():
                return run(x)
        variants[memory_format] = step
    return variants
