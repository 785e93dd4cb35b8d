#include "starling/runtime/execution/body_program.h"

#include "starling/base/error.h"
#include "starling/base/round_up.h"
#include "starling/base/thread/stop_request.h"

namespace starling::runtime {
namespace {}  // namespace

BodyProgram::BodyProgram(const graph::Graph& body, const ExecutableOptions& options)
    : executable_(Executable::build(body, options.program, options.own_kernels)) {
  int collectives = 0;
  for (int number = 0; number < graph::kMostCommLanes; ++number)
    collectives += executable_->lane_size(graph::comm_lane(number));
  check(collectives == 0, "[control] expected a body without collectives, got {} of them", collectives);
  for (const graph::Node& node : executable_->graph().nodes()) {
    const Symbol group = graph::comm_group(node);
    check(group.empty(), "[control] expected collectives of all ranks in a body, got {} of group '{}'", node.op->name,
          group.str());
  }
  for (const auto& constant : executable_->graph().constants) constants_.push_back(to(constant, kCpu));
  for (const auto& instruction : executable_->instructions()) {
    Step step{instruction.plan.get(), table_.size(), 0, instruction.scratch.offset};
    table_.insert(table_.end(), instruction.in.begin(), instruction.in.end());
    step.out = table_.size();
    table_.insert(table_.end(), instruction.out.begin(), instruction.out.end());
    steps_.push_back(step);
  }
  table_at_ = round_up(executable_->arena_bytes());
}

void BodyProgram::run(std::byte* memory, void* const* inputs, void* const* outputs,
                      kernels::RunContext& context) const {
  auto** addresses = reinterpret_cast<void**>(memory + table_at_);
  for (std::size_t i = 0; i < table_.size(); ++i) {
    const Address& address = table_[i];
    const auto index = static_cast<std::size_t>(address.index);
    void* base = address.kind == Address::Kind::arena    ? memory
                 : address.kind == Address::Kind::input  ? inputs[index]
                 : address.kind == Address::Kind::output ? outputs[index]
                                                         : constants_[index].impl()->address();
    addresses[i] = static_cast<std::byte*>(base) + address.offset;
  }
  for (const Step& step : steps_) {
    check_stop_request();
    step.plan->run({addresses + step.in, addresses + step.out, memory + step.scratch, context});
  }
}

}  // namespace starling::runtime
