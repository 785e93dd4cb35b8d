#pragma once

#include <vector>

#include "starling/dist/mesh/layout_choice.h"
#include "starling/tensor/named_tensor.h"

namespace starling::dist {

// Throws Error if two patterns of a choice split a parameter differently along one axis: which of them was meant cannot
// be known. Patterns go before a preset's, which they replace for what they name.
void expect_one_layout(const LayoutChoice& layout, const MeshShape& mesh, const std::vector<NamedTensor>& parameters);

}  // namespace starling::dist
