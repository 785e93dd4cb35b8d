#pragma once

#include <memory>

#include "starling/data/datasets/scaled_dataset.h"

namespace starling::data {

// Images u8 [n, channels, height, width] and labels as a data set: images as u8, or scaled to f32.
inline std::shared_ptr<const Dataset> pictures(const Tensor& images, const Tensor& labels, bool bytes,
                                               const ByteScale& scale) {
  if (bytes) return std::make_shared<const TensorDataset>(std::vector<Tensor>{images, labels});
  return std::make_shared<const ScaledDataset>(std::vector<Tensor>{images, labels}, scale);
}

}  // namespace starling::data
