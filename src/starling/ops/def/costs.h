#pragma once

#include <string_view>

#include "starling/ops/def/op_def.h"

// Common rules for the cost of ops (OpDef::cost), and what rules of single ops are made of.
namespace starling::costs {

CostRule none();                                  // names memory that exists already
CostRule moves();                                 // data movement only
CostRule each(double count);                      // operations per element of the larger of first operand and results
CostRule gathers(int operand, double count = 0);  // as each, and only so much of the operand is read as the result has
CostRule each_of_first();                         // one operation per element of the first operand
CostRule pool();                                  // every output looks at its window, given by the attribute `kernel`
CostRule pool_backward();
CostRule cubes(double factor);  // factorisations of matrices [.., m, n]: factor · m · n · min(m, n)
// Recurrent layers: a step is a product with the recurrent weights and `count` operations per unit. `sequence` and
// `weights` are operands.
CostRule recurrent(std::size_t sequence, std::size_t weights, double count);

double elements(const TensorType& type);
double largest(const CostCall& call);                       // elements of the larger of first operand and results
double size(const TensorType& type, int dim);               // 1 for dimensions that the tensor does not have
double taps(const TensorType& weight);                      // elements of a convolution's weight that one output reads
double product_depth(const CostCall& call, std::size_t a);  // length of the sums of a product, from its left factor
double sgd_each(const CostCall& call);                      // operations of an SGD step per weight

bool flag(const CostCall& call, std::string_view attribute);  // false for attributes that the op does not have
bool activated(const CostCall& call);                         // names an activation

}  // namespace starling::costs
