#pragma once

#include <functional>
#include <memory>

#include "starling/base/kinds.h"
#include "starling/nn/module.h"
#include "starling/tensor/shape.h"

namespace starling::nn {

// Makes a layer for samples of a shape, given without the batch axis: what a layer can know from its input (channels,
// width) is not asked of the user.
using LayerMaker = std::function<std::shared_ptr<Module>(const Shape& sample)>;
using LayerKinds = Kinds<LayerMaker>;

// By the names that declarative networks use; built from the files in nn/kinds.
const LayerKinds& layer_kinds();

}  // namespace starling::nn
