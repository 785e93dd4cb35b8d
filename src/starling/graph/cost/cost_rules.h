#pragma once

#include <string_view>

#include "starling/graph/cost/cost.h"

namespace starling {

using FlopRule = double (*)(const CostCall& call);

// FLOP rule of an op; null if it has none.
FlopRule flop_rule(std::string_view op);

// Operations per element of the larger of first operand and first result, for ops that sweep over it; 0 for those that
// only move data, negative for unknown ops.
double flops_per_element(std::string_view op);

// Operand that is read sparsely (the table of an embedding); -1: none.
int gathered_operand(std::string_view op);

}  // namespace starling
