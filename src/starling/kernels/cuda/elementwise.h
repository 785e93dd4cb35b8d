#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "starling/kernels/cuda/storage.h"
#include "starling/kernels/kernel_table.h"

namespace starling::cuda {

// Registers an elementwise op as a C expression over its operands a, b, c, of type T where they are alike, and its
// attributes p, q. `of_integers` is the expression where T is an integer, if that differs. Nothing else is needed for a
// new op: kernels for it alone and for fused chains are compiled when a program is planned.
//   add_elementwise(table, "neg", "-a");
void add_elementwise(kernels::KernelTable& table, std::string_view op, std::string_view expression,
                     std::string_view of_integers = {});

// Expression that an op was registered with, for operands of a dtype; null if none.
const std::string* elementwise_expression(std::string_view op, DType dtype = DType::f32);

// C type of a dtype's values; null for f16 and bf16, which have no arithmetic here.
const char* c_type(DType dtype);
// C type in memory and of values computed with: BF16 and F16, which convert to and from float, and float for 16-bit
// floats. Code with the first needs half_types() before it.
const char* stored_type(DType dtype);
const char* value_type(DType dtype);
const char* half_types();
// C type that moves a dtype's values unchanged.
const char* moved_type(DType dtype);
// Value by its bits, so that infinities and NaN need no names.
std::string literal(double value);

// Fused chain of elementwise expressions. Values are numbered operands first, then one per step.
struct Chain {
  struct Operand {
    DType dtype;
    Shape strides;  // over `shape`, in elements
    std::int64_t first = 0;
  };
  struct Step {
    std::string expression;
    std::vector<int> in;
    DType dtype;
    std::vector<double> attributes{};
  };
  Shape shape;
  std::vector<Operand> operands;
  std::vector<Step> steps;
  std::vector<int> outputs;       // written contiguously, or
  std::optional<Operand> into{};  // where these strides say
};

// Reduction of the only output of a chain over axes of its shape; the result is contiguous.
enum class Fold : std::uint8_t { sum, mean, prod, max, min };
struct ChainFold {
  Chain chain;
  Shape axes;
  Fold fold = Fold::sum;
  int pieces = 1;  // blocks that share the terms of a result; each writes what it has: the result is [results, pieces]
};

// Threads per block; chain_elements() is the number of elements per thread.
inline constexpr int kChainThreads = 256;
int chain_elements(const Chain& chain);
std::string chain_source(const Chain& chain);
std::string fold_source(const ChainFold& fold);
std::int64_t fold_results(const ChainFold& fold);
std::int64_t fold_terms(const ChainFold& fold);
std::int64_t fold_blocks(const ChainFold& fold);
int fold_threads(const ChainFold& fold);

// False where a dtype has no C type on the device.
bool has_types(const Chain& chain);

// The same chain with its dimensions in the order of these strides of the results: written contiguously then.
Chain in_order_of(Chain chain, const Shape& strides);

// Null where a dtype has no C type.
std::unique_ptr<kernels::Plan> plan_chain(const Chain& chain);

// Storage of kernels that are chains: any of it.
kernels::Storable converts();

// Copy of elements of a dtype, bit by bit, between places of two arrays.
Chain move_chain(DType dtype, const Shape& shape, const Shape& from, const Chain::Operand& into);

// Copy of an operand's elements in row-major order, to another dtype or shape.
std::unique_ptr<kernels::Plan> plan_copy(const kernels::PlanRequest& request);

}  // namespace starling::cuda
