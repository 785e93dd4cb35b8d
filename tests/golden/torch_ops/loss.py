"""What the losses mean, said with PyTorch."""
import torch
import torch.nn.functional as F


def _cross_entropy(x, a):
    return [F.cross_entropy(x[0], x[1], reduction="sum"), torch.logsumexp(x[0], 1)]


def _cross_entropy_weighted(x, a):
    rows = F.cross_entropy(x[0], x[1], reduction="none")
    return [(rows * x[2]).sum(), torch.logsumexp(x[0], 1)]


def _softmax_minus_labels(logits, labels, lse):
    return torch.exp(logits - lse[:, None]) - F.one_hot(labels, logits.shape[1])


def _nll(x, a):
    labels, weight = x[1], x[2] if len(x) > 2 else torch.ones(x[0].shape[1], dtype=x[0].dtype)
    kept = labels != a["ignore_index"]
    total = F.nll_loss(x[0], labels, weight, ignore_index=a["ignore_index"], reduction="none").sum()
    return [total, weight[labels[kept]].sum()]


def _pick(x, a):
    kept = x[1] != a["ignore_index"]
    picked = torch.gather(x[0], 1, torch.where(kept, x[1], 0).unsqueeze(1)).squeeze(1)
    return [torch.where(kept, picked, 0.0)]


def _place(x, a):
    kept = x[1] != a["ignore_index"]
    shape = list(x[0].shape)
    shape.insert(1, a["classes"])
    values = torch.where(kept, x[0], 0.0).unsqueeze(1)
    return [torch.zeros(shape, dtype=x[0].dtype).scatter(1, torch.where(kept, x[1], 0).unsqueeze(1), values)]


def _cosine(x, a):
    target = torch.where(x[2] > 0, 1, -1)
    return [F.cosine_embedding_loss(x[0], x[1], target, margin=a["margin"], reduction="none")]


def _kl(x, a):
    return [F.kl_div(x[0], x[1], log_target=a["log_target"], reduction="none")]


def _bce(x, a):
    p, t = torch.broadcast_tensors(x[0], x[1])
    return [F.binary_cross_entropy(p, t, reduction="none")]


def _bce_with_logits(x, a):
    logits, target = torch.broadcast_tensors(x[0], x[1])
    return [F.binary_cross_entropy_with_logits(logits, target, pos_weight=x[2], reduction="none")]


def _pair(function):
    def call(x, a):
        first, second = torch.broadcast_tensors(x[0], x[1])
        return [function(first, second, a)]
    return call


def _ctc(x, a):
    if x[0].shape[1] == 0:
        return [torch.zeros(0, dtype=x[0].dtype)]
    return [F.ctc_loss(x[0], x[1], x[2], x[3], blank=a["blank"], zero_infinity=a["zero_infinity"], reduction="none")]


OPS = {
    "cross_entropy_sum": _cross_entropy,
    "cross_entropy_backward": lambda x, a: [_softmax_minus_labels(x[0], x[1], x[2]) * x[3]],
    "cross_entropy_weighted": _cross_entropy_weighted,
    "cross_entropy_weighted_backward": lambda x, a: [
        _softmax_minus_labels(x[0], x[1], x[3]) * x[2][:, None] * x[4]],
    "squared_error": lambda x, a: [F.mse_loss(x[0], x[1], reduction="sum")],
    "nll": _nll,
    "label_pick": _pick,
    "label_place": _place,
    "l1_loss": _pair(lambda p, t, a: F.l1_loss(p, t, reduction="none")),
    "huber_loss": _pair(lambda p, t, a: F.huber_loss(p, t, delta=a["delta"], reduction="none")),
    "smooth_l1_loss": _pair(lambda p, t, a: F.smooth_l1_loss(p, t, beta=a["beta"], reduction="none")),
    "bce_loss": _bce,
    "bce_with_logits_loss": _bce_with_logits,
    "kl_div_loss": _kl,
    "hinge_loss": lambda x, a: [torch.clamp(a["margin"] - x[0] * x[1], min=0)],
    "cosine_embedding_loss": _cosine,
    "triplet_margin_loss": lambda x, a: [
        F.triplet_margin_loss(x[0], x[1], x[2], margin=a["margin"], eps=a["eps"], reduction="none")],
    "ctc_loss": _ctc,
    "ctc_derivative": "PyTorch's gradient of ctc_loss supposes that log_probs went through log_softmax; ours does not",
}
