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

}  // namespace starling::nn
