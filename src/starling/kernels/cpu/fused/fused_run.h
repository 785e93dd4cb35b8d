#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "starling/kernels/cpu/fused/fused_fold.h"

namespace starling::kernels {

// Cheap steps of a fused chain, each fed the result of the one before: values stay in registers from the first to the
// last, and a final reduction never touches memory.
enum class RunOp : std::uint8_t {
  add,
  sub,
  sub_from,
  mul,
  div,
  div_into,
  maximum,
  minimum,
  relu,
  relu_backward,
  gate,
  abs,
  neg,
  square,
  sqrt
};
struct RunStep {
  RunOp op;
  bool scalar;          // the operand is a single element
  const void* operand;  // null if the op has none
};

// Step for an op whose running value is its operand number `place` (0 or 1); none if the op is not cheap.
std::optional<RunOp> run_op(std::string_view op, int place);

inline constexpr int kMostRunSteps = 16;

// Runs n elements from `first` through all steps, into `out` if not null, and reduced to one if `folds` is true (a sum,
// a maximum or a minimum). `out` may be `first` or an operand. One thread, any alignment.
struct RunCall {
  const void* first;
  bool first_scalar;
  const RunStep* steps;
  int count;
  void* out;
  std::int64_t n;
  bool folds;
  FoldOp fold;
};
using RunFn = double (*)(const RunCall& call);
RunFn run_fn(bool f64);  // for this machine's instruction set

}  // namespace starling::kernels
