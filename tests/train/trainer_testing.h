#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "starling/data/datasets/dataset.h"
#include "starling/nn/layers.h"
#include "starling/ops/api/random.h"
#include "starling/optim/sgd.h"
#include "starling/train/loop/trainer.h"
#include "starling/train/objectives.h"
#include "starling/train/run/weights_hash.h"
#include "train/tiny_fashion.h"

namespace starling::testing {

// Points in [-1, 1]⁸; the class is the index of the largest of the first four coordinates.
inline std::shared_ptr<const Dataset> points(std::int64_t count, std::uint32_t noise = 99) {
  std::vector<float> x;
  std::vector<std::int64_t> y;
  for (std::int64_t i = 0; i < count; ++i) {
    for (int d = 0; d < 8; ++d) {
      noise = noise * 1664525U + 1013904223U;
      x.push_back(static_cast<float>(noise >> 8) / static_cast<float>(1 << 23) - 1);
    }
    const float* first = x.data() + i * 8;
    y.push_back(std::max_element(first, first + 4) - first);
  }
  return std::make_shared<TensorDataset>(
      std::vector<Tensor>{from_host<float>(x, {count, 8}), from_host<std::int64_t>(y, {count})});
}

inline nn::Sequential small_net(double dropout = 0) {
  manual_seed(3);
  nn::Sequential net;
  net.add("fc1", nn::Linear({.in = 8, .out = 32})).add("relu", nn::Relu());
  if (dropout > 0) net.add("drop", nn::Dropout(dropout));
  net.add("fc2", nn::Linear({.in = 32, .out = 4}));
  return net;
}

inline TrainerOptions quiet(TrainerOptions options) {
  options.progress.mode = ProgressMode::off;
  options.threads = 1;
  return options;
}

inline std::string hash_of(const nn::Module& net) {
  std::vector<NamedTensor> weights;
  for (auto& [name, tensor] : net.named_parameters()) weights.push_back({name, tensor});
  return train::weights_hash(weights);
}

}  // namespace starling::testing
