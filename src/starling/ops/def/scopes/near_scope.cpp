#include "starling/ops/def/scopes/near_scope.h"

#include "starling/tensor/interpreter.h"

namespace starling {

NearScope::NearScope(const Tensor& like) {
  if (&current_interpreter() == &eager_interpreter()) scope_.emplace(like.device());
}

}  // namespace starling
