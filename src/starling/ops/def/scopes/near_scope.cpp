#include "starling/ops/def/scopes/near_scope.h"

#include "starling/tensor/interpreter.h"

namespace starling {

NearScope::NearScope(const Tensor& like) {
  const bool eager = &current_interpreter() == &eager_interpreter();
  if (eager && like.device().kind != DeviceKind::cpu) scope_.emplace(like.device());
}

}  // namespace starling
