#pragma once

#include <memory>
#include <vector>

#include "starling/runtime/execution/executable.h"

namespace starling::runtime {

// Program of a control-flow body: an executable run inside an instruction of the enclosing program. Immutable like a
// plan. Arena, scratch and addresses lie in memory that the caller provides, so that running allocates nothing and
// several instances may run it at once.
class BodyProgram {
 public:
  BodyProgram(const graph::Graph& body, const ExecutableOptions& options);

  std::size_t memory_bytes() const { return table_at_ + table_.size() * sizeof(void*); }
  // Inputs and outputs are dense, in the order and of the types of the body; outputs overlap nothing else. `memory`
  // must have memory_bytes(), aligned to 64.
  void run(std::byte* memory, void* const* inputs, void* const* outputs, kernels::RunContext& context) const;

  const graph::Graph& graph() const { return executable_->graph(); }

 private:
  struct Step {
    const kernels::Plan* plan;
    std::size_t in, out;  // first address in the table
    std::int64_t scratch;
  };
  std::shared_ptr<const Executable> executable_;
  std::vector<Tensor> constants_;
  std::vector<Address> table_;  // operands of all steps
  std::vector<Step> steps_;
  std::size_t table_at_ = 0;
};

}  // namespace starling::runtime
