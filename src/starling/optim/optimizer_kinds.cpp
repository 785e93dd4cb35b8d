#include "starling/optim/optimizer_kinds.h"

namespace starling {
void register_optimizers(optim::OptimizerKinds& into);  // generated
}

namespace starling::optim {

const OptimizerKinds& optimizer_kinds() {
  static const OptimizerKinds kinds = [] {
    OptimizerKinds made;
    register_optimizers(made);
    return made;
  }();
  return kinds;
}

}  // namespace starling::optim
