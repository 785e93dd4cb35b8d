#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "starling/kernels/cpu/simd/fused_fold.h"

namespace starling {

// Cheap steps of a fused chain, each taking what the one before it gave: values stay in registers from the first to the
// last, and a reduction at the end never sees memory.
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
  bool scalar;          // the operand is one element
  const void* operand;  // null where the op has none
};

// The step that an op is to the operand at this place of it (0 or 1); none where it is not cheap.
std::optional<RunOp> run_op(std::string_view op, int place);

inline constexpr int kMostRunSteps = 16;

// n elements from `first` through all steps, into `out` where it is not null, and folded into one where `folds` is true
// (a sum, a maximum or a minimum). `out` may be `first` or an operand. One thread, any alignment.
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
RunFn run_fn(bool f64);  // for this machine

}  // namespace starling
