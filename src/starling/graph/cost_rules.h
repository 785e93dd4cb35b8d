#pragma once

#include <string_view>

#include "starling/graph/cost.h"

namespace starling {

using FlopRule = double (*)(const CostCall& call);

// How the operations of an op are counted; null: by no rule of its own.
FlopRule flop_rule(std::string_view op);

// Operations for each element of the larger of first operand and first result, for ops that are one or several sweeps
// over it; 0 for those that only move data, negative for ops unknown here.
double flops_per_element(std::string_view op);

// Operands of which only what is asked for is read: the table of an embedding. -1: none.
int gathered_operand(std::string_view op);

}  // namespace starling
