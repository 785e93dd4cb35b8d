#include "starling/runtime/execution/deferred_steps.h"

#include <algorithm>

#include "starling/graph/next_forward.h"

namespace starling::runtime {
namespace {

bool overlap(const Address& a, const Address& b) {
  if (a.kind != b.kind) return false;
  if (a.kind == Address::Kind::variable) return a.index == b.index;
  return a.kind == Address::Kind::arena && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

// Memory that an instruction reads and writes; scratch counts as written.
struct Touched {
  std::vector<Address> read, written;

  explicit Touched(const Instruction& instruction) : read(instruction.in), written(instruction.out) {
    Address scratch = instruction.scratch;
    scratch.bytes = static_cast<std::int64_t>(instruction.plan->scratch_bytes);
    if (scratch.bytes > 0) written.push_back(scratch);
  }
};

bool meet(const std::vector<Address>& some, const std::vector<Address>& others) {
  return std::any_of(some.begin(), some.end(), [&](const Address& a) {
    return std::any_of(others.begin(), others.end(), [&](const Address& b) { return overlap(a, b); });
  });
}

bool conflict(const Touched& a, const Touched& b) {
  return meet(a.read, b.written) || meet(a.written, b.read) || meet(a.written, b.written);
}

// True if an instruction may still run after the caller has its tensors back.
bool stays_inside(const Executable& executable, const Instruction& instruction) {
  const auto inside = [&](const Address& address) {
    if (address.kind == Address::Kind::variable)
      return is_deferred(executable.graph().variables[static_cast<std::size_t>(address.index)]);
    return address.kind == Address::Kind::arena || address.kind == Address::Kind::constant;
  };
  return std::all_of(instruction.in.begin(), instruction.in.end(), inside) &&
         std::all_of(instruction.out.begin(), instruction.out.end(), inside);
}

int awaited(const Executable& executable) {
  int count = 0, position = 0;
  for (const Instruction& instruction : executable.instructions()) {
    if (instruction.lane == graph::Lane::comm) {
      ++position;
      if (!stays_inside(executable, instruction)) count = std::max(count, position);
      continue;
    }
    for (const Wait& wait : instruction.waits) {
      if (wait.lane == graph::Lane::comm) count = std::max(count, wait.count);
    }
  }
  return count;
}

}  // namespace

DeferredSteps deferred_steps(const Executable& executable) {
  DeferredSteps steps;
  const graph::Graph& graph = executable.graph();
  const auto group = graph.targets.find(std::string(graph::kDeferredUpdates));
  if (group == graph.targets.end()) return steps;
  steps.awaited = awaited(executable);
  std::vector<bool> update_nodes(graph.nodes().size());
  for (graph::NodeId id : group->second) update_nodes[static_cast<std::size_t>(id)] = true;
  std::vector<std::pair<int, Touched>> trailing;
  int position = 0;
  for (const Instruction& instruction : executable.instructions()) {
    if (instruction.lane == graph::Lane::comm && ++position > steps.awaited)
      trailing.emplace_back(position, instruction);
  }
  for (const Instruction& instruction : executable.instructions()) {
    steps.update.push_back(update_nodes[static_cast<std::size_t>(instruction.node)]);
    const Touched own(instruction);
    int earlier = 0;
    for (const auto& [count, touched] : trailing) {
      if (instruction.lane != graph::Lane::comm && conflict(own, touched)) earlier = count;
    }
    steps.earlier.push_back(earlier);
  }
  return steps;
}

}  // namespace starling::runtime
