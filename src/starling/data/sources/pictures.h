#pragma once

#include <memory>

#include "starling/data/scaled_dataset.h"

namespace starling {

// Pictures u8 [n, channels, height, width] and their labels: as bytes, or as f32 by the scale.
inline std::shared_ptr<const Dataset> pictures(const Tensor& images, const Tensor& labels, bool bytes,
                                               const ByteScale& scale) {
  if (bytes) return std::make_shared<const TensorDataset>(std::vector<Tensor>{images, labels});
  return std::make_shared<const ScaledDataset>(std::vector<Tensor>{images, labels}, scale);
}

}  // namespace starling
