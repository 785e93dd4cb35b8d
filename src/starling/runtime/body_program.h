#pragma once

#include <memory>
#include <vector>

#include "starling/runtime/executable.h"

namespace starling {

// The program of a body of control flow: an executable of its own, run inside an instruction of the program around it.
// Immutable like a plan. Arena, scratch and addresses of a run lie in memory that the caller gives, so that running
// allocates nothing and several instances may run it at once.
class BodyProgram {
 public:
  BodyProgram(const Graph& body, const ExecutableOptions& options);

  std::size_t memory_bytes() const { return table_at_ + table_.size() * sizeof(void*); }
  // Inputs and outputs are dense, in the order and of the types of the body; outputs overlap nothing else. `memory` has
  // memory_bytes(), aligned to 64.
  void run(std::byte* memory, void* const* inputs, void* const* outputs, RunContext& context) const;

  const Graph& graph() const { return executable_->graph(); }

 private:
  struct Step {
    const Plan* plan;
    std::size_t in, out;  // where its addresses begin in the table
    std::int64_t scratch;
  };
  std::shared_ptr<const Executable> executable_;
  std::vector<Tensor> constants_;
  std::vector<Place> table_;  // of all operands of all steps
  std::vector<Step> steps_;
  std::size_t table_at_ = 0;
};

}  // namespace starling
