#pragma once

#include <string>

#include "starling/cli/bench/bench_net.h"
#include "starling/runtime/execution/executable.h"
#include "starling/runtime/program.h"

namespace starling::cli {

// The compiled step of a network, planned without memory for its weights, gradients and optimizer state: also of one
// that does not fit anywhere.
class PlannedStep {
 public:
  explicit PlannedStep(const BenchOptions& options);

  std::string print() const;  // the graph, its instructions, and the memory of a step

  // Bytes that a step takes on its device: the weights, buffers and optimizer state; the program's arena with its
  // scratch; the batch and the results.
  std::int64_t variables() const { return variables_; }
  std::int64_t arena() const { return static_cast<std::int64_t>(built_.executable->arena_bytes()); }
  std::int64_t operands() const { return operands_; }
  std::int64_t all() const { return variables() + arena() + operands(); }

 private:
  runtime::BuiltProgram built_;
  std::int64_t variables_ = 0, operands_ = 0;
};

}  // namespace starling::cli
