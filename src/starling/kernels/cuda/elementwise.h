#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "starling/kernels/kernel_table.h"

namespace starling::cuda {

// Registers an elementwise op as a C expression over its operands a, b, c, of type T where they are alike. Nothing else
// is needed for a new op: kernels for it alone and for fused chains are compiled when a program is planned.
//   add_elementwise(table, "neg", "-a");
void add_elementwise(kernels::KernelTable& table, std::string_view op, std::string_view expression);

// Expression that an op was registered with; null if none.
const std::string* elementwise_expression(std::string_view op);

// Fused chain of elementwise expressions. Values are numbered operands first, then one per step.
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
  std::vector<int> outputs;  // written contiguously
};

// Threads per block; chain_elements() is the number of elements per thread.
inline constexpr int kChainThreads = 256;
int chain_elements(const Chain& chain);
std::string chain_source(const Chain& chain);

// Null where a dtype has no C type on the device (f16, bf16).
std::unique_ptr<kernels::Plan> plan_chain(const Chain& chain);

// Copy of an operand's elements in row-major order, to another dtype or shape.
std::unique_ptr<kernels::Plan> plan_copy(const kernels::PlanRequest& request);

}  // namespace starling::cuda
