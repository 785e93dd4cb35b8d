#pragma once

#include <functional>

#include "starling/graph/control_apply.h"

namespace starling {

// A body as code: what it makes of the inputs that are its own.
using BodyFn = std::function<TensorList(const TensorList& own)>;

// Traces functions that take the same inputs (`own`, by type) into bodies that also take the same captures: what any of
// them reads from outside is added to `captures`, and becomes an input of all.
std::vector<BodyPtr> trace_bodies(std::string_view control, const Types& own, std::span<const BodyFn> functions,
                                  TensorList& captures);

}  // namespace starling
