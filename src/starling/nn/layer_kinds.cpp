#include "starling/nn/layer_kinds.h"

namespace starling {
void register_layers(nn::LayerKinds& into);  // generated
}

namespace starling::nn {

const LayerKinds& layer_kinds() {
  static const LayerKinds kinds = [] {
    LayerKinds made;
    register_layers(made);
    return made;
  }();
  return kinds;
}

std::int64_t channels_of(const char* layer, const TensorType& sample, int axes) {
  static constexpr const char* kExpected[] = {"[c]", "[c, l]", "[c, h, w]", "[c, d, h, w]"};
  check(sample.shape.rank() == axes + 1, "[{}] expected samples {}, got {}", layer, kExpected[axes], to_string(sample));
  return sample.shape[0];
}

std::int64_t width_of(const char* layer, const TensorType& sample) {
  check(sample.shape.rank() >= 1, "[{}] expected samples [.., width], got {}", layer, to_string(sample));
  return sample.shape.back();
}

}  // namespace starling::nn
