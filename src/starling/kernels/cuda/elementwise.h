#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "starling/kernels/kernel_table.h"

namespace starling::cuda {

// Elementwise ops are expressions in C over a, b, c, their operands, of type T where they are alike. That is all there
// is to write for a new one: kernels of it alone and of chains with others are compiled when a program is planned.
//   add_elementwise(table, "neg", "-a");
void add_elementwise(KernelTable& table, std::string_view op, std::string_view expression);

// The expression an op was added with; null if it was not.
const std::string* elementwise_expression(std::string_view op);

// A chain of expressions over elements. Values are numbered operands first, then one a step.
struct Chain {
  struct Operand {
    DType dtype;
    Shape strides;  // over `shape`, in elements
  };
  struct Step {
    std::string expression;
    std::vector<int> in;
    DType dtype;
  };
  Shape shape;
  std::vector<Operand> operands;
  std::vector<Step> steps;
  std::vector<int> outputs;  // written densely
};

// Elements that a thread makes; a block has kChainThreads.
inline constexpr int kChainThreads = 256;
int chain_elements(const Chain& chain);
std::string chain_source(const Chain& chain);

// Null where a dtype has no C type on the device (f16, bf16).
std::unique_ptr<Plan> plan_chain(const Chain& chain);

}  // namespace starling::cuda
