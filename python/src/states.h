#pragma once

#include "starling/nn/state.h"

namespace starling::python {

// Copies a state into tensors by name, as nn::load_tensors() does. A tensor that is given as its own value stays as it
// is: so go those that ranks store pieces of, whose pieces were put there before and which cannot be written as a
// whole.
nn::LoadReport load_named(const nn::NamedTensors& into, const nn::NamedTensors& from, const nn::LoadOptions& options);

}  // namespace starling::python
