#pragma once

#include "starling/ops/def/attrs/vision.h"
#include "starling/tensor/tensor.h"

namespace starling {

// RoIAlign: regions of feature maps resampled to one size. x [n, c, h, w], boxes f32 [k, 4] of (left, top, right,
// bottom), sample i64 [k], the index in [0, n) of each box → [k, c, size…]. Each bin is the mean of bilinear values at
// its points; points more than one pixel outside count as 0. Only x has a gradient. Refuses boxes that are not finite
// or need more than 4096 points per bin.
Tensor roi_align(const Tensor& x, const Tensor& boxes, const Tensor& sample, const op::RoiAlignAttrs& attrs = {});

// Non-maximum suppression: boxes [n, 4] and scores [n] → i64 indices of the boxes kept, by falling score (the first of
// equal scores first). A box is dropped if its intersection over union with a kept one is above the threshold. Eager
// only: the size of the result depends on values.
Tensor nms(const Tensor& boxes, const Tensor& scores, double iou_threshold = 0.5);

}  // namespace starling
