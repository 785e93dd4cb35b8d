#pragma once

#include <vector>

#include "starling/kernels/cuda/elementwise.h"
#include "starling/kernels/cuda/run_time_kernel.h"

namespace starling::cuda {

// Pointer argument of a stage: an operand or result of the launch by number, or an offset into its scratch.
struct Pointer {
  enum class Of : std::uint8_t { in, out, scratch };
  Of of = Of::in;
  std::size_t at = 0;
};

// Launch of one kernel compiled at run time.
struct Stage {
  const RunTimeKernel* kernel = nullptr;
  std::int64_t blocks = 0;
  int threads = 0;
  std::vector<Pointer> pointers{};
};

// Stages of a chain and of a fold; pointers are those of the operands, then of the outputs. Without elements there is
// no launch: blocks is 0.
Stage chain_stage(const Chain& chain, std::vector<Pointer> pointers);
Stage fold_stage(const ChainFold& fold, std::vector<Pointer> pointers);

// Adds the stages of a fold: two, by way of more scratch, where few results have many terms.
void add_fold(std::vector<Stage>& stages, std::size_t& scratch_bytes, ChainFold fold, std::vector<Pointer> pointers);

// Kernel that runs C code once for every element of a shape. The code sees the element's number i, its coordinates x0,
// x1, … (of type Index), and the pointers a0, a1, … of operands and o0, o1, … of results, of the types given.
struct ElementCode {
  Shape shape;
  std::vector<std::string> in{}, out{};
  std::string body{};
  std::string functions{};
};
std::string code_source(const ElementCode& code);
Stage code_stage(const ElementCode& code, std::vector<Pointer> pointers);

// Pointers to all operands, then all results, in their order.
std::vector<Pointer> plain_pointers(std::size_t in, std::size_t out);
std::unique_ptr<kernels::Plan> plan_code(const ElementCode& code);

// Runs stages one after another.
std::unique_ptr<kernels::Plan> plan_stages(std::vector<Stage> stages, std::size_t scratch_bytes = 0);

}  // namespace starling::cuda
