#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "starling/base/config/kinds.h"
#include "starling/optim/optimizer.h"

namespace starling::optim {

using OptimizerMaker = std::function<std::unique_ptr<Optimizer>(std::vector<ParameterGroup> groups)>;
using OptimizerKinds = Kinds<OptimizerMaker>;

// Optimizers by the names that jobs use; built from the files in optim/kinds.
const OptimizerKinds& optimizer_kinds();

}  // namespace starling::optim
