#include "starling/data/transform.h"

namespace starling {

void register_transforms(TransformKinds& into);  // generated

const TransformKinds& transform_kinds() {
  static const TransformKinds kinds = [] {
    TransformKinds made;
    register_transforms(made);
    return made;
  }();
  return kinds;
}

}  // namespace starling
