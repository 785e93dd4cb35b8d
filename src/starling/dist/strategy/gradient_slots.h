#pragma once

#include <vector>

#include "starling/graph/graph.h"

namespace starling::dist {

// Variables of a traced program that are gradient slots of others: where gradients of several batches are added up.
std::vector<Tensor> gradient_slots(const graph::Graph& global);

}  // namespace starling::dist
