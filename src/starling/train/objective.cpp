#include "starling/train/objective.h"

namespace starling {

void register_objectives(ObjectiveKinds& into);  // generated

const ObjectiveKinds& objective_kinds() {
  static const ObjectiveKinds kinds = [] {
    ObjectiveKinds made;
    register_objectives(made);
    return made;
  }();
  return kinds;
}

}  // namespace starling
