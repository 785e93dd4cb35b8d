"""Regions and boxes; torchvision's definitions, written out."""

import torch


def bilinear(image, row, column):
    """The value of images [c, h, w] at a point; 0 more than a pixel outside."""
    h, w = image.shape[1:]
    if row < -1 or row > h or column < -1 or column > w:
        return image.new_zeros(image.shape[0])
    row, column = min(max(row, 0.0), h - 1.0), min(max(column, 0.0), w - 1.0)
    top, left = int(row), int(column)
    bottom, right = min(top + 1, h - 1), min(left + 1, w - 1)
    down, across = row - top, column - left
    upper = image[:, top, left] * (1 - across) + image[:, top, right] * across
    lower = image[:, bottom, left] * (1 - across) + image[:, bottom, right] * across
    return upper * (1 - down) + lower * down


def align(x, boxes, samples, size, attrs):
    out = []
    for box, sample in zip(boxes.tolist(), samples.tolist()):
        offset = 0.5 if attrs["aligned"] else 0.0
        left, top, right, bottom = (v * attrs["spatial_scale"] - offset for v in box)
        h, w = bottom - top, right - left
        if not attrs["aligned"]:
            h, w = max(h, 1.0), max(w, 1.0)
        bin_h, bin_w = h / size[0], w / size[1]
        ratio = attrs["sampling_ratio"]
        points_h = ratio if ratio > 0 else max(int(torch.tensor(bin_h).ceil()), 0)
        points_w = ratio if ratio > 0 else max(int(torch.tensor(bin_w).ceil()), 0)
        bins = []
        for i in range(size[0]):
            for j in range(size[1]):
                total = x.new_zeros(x.shape[1])
                for p in range(points_h):
                    for q in range(points_w):
                        total = total + bilinear(x[sample], top + (i + (p + 0.5) / points_h) * bin_h,
                                                 left + (j + (q + 0.5) / points_w) * bin_w)
                bins.append(total / max(points_h * points_w, 1))
        out.append(torch.stack(bins, 1).reshape(x.shape[1], *size))
    return torch.stack(out) if out else x.new_zeros(0, x.shape[1], *size)


def align_backward(inputs, attrs):
    dy, boxes, samples = inputs
    x = torch.zeros(attrs["shape"], dtype=dy.dtype, requires_grad=True)
    if len(boxes) == 0:
        return [x.detach()]
    return list(torch.autograd.grad(align(x, boxes, samples, dy.shape[2:], attrs) + 0 * x.sum(), x, dy))


def nms(inputs, attrs):
    boxes, scores = inputs
    kept = []
    for i in torch.argsort(scores, descending=True, stable=True).tolist():
        hidden = False
        for k in kept:
            size = (torch.minimum(boxes[i, 2:], boxes[k, 2:]) - torch.maximum(boxes[i, :2], boxes[k, :2])).clamp(min=0)
            both = size.prod()
            areas = (boxes[i, 2:] - boxes[i, :2]).prod() + (boxes[k, 2:] - boxes[k, :2]).prod()
            hidden |= bool(both / (areas - both) > attrs["iou_threshold"])
        if not hidden:
            kept.append(i)
    return [torch.tensor(kept, dtype=torch.int64)]


OPS = {
    "roi_align": lambda inputs, attrs: [align(*inputs, attrs["size"], attrs)],
    "roi_align_backward": align_backward,
    "nms": nms,
}
