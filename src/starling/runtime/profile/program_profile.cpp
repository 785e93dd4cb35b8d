#include "starling/runtime/profile/program_profile.h"

#include <algorithm>
#include <map>

#include "starling/base/error.h"
#include "starling/graph/export/naming.h"
#include "starling/runtime/execution/executable.h"

namespace starling::runtime {
namespace {

// True for a copy inserted by lowering: it has the node it serves, not one of its own.
bool is_copy(const graph::Graph& graph, const Instruction& instruction) {
  return graph.node(instruction.node).op->name != instruction.op;
}

graph::Cost cost_of_instruction(const graph::Graph& graph, const Instruction& instruction) {
  if (!is_copy(graph, instruction)) return cost_of(graph, instruction.node);
  graph::Cost cost;
  for (const auto& address : instruction.in) cost.bytes_read += static_cast<double>(address.bytes);
  for (const auto& address : instruction.out) cost.bytes_written += static_cast<double>(address.bytes);
  return cost;
}

// Walks the instructions and tracks the value in every buffer of the arena.
class Timeline {
 public:
  Timeline(const Executable& executable, const graph::GraphNames& names) : exe_(executable), names_(names) {}

  MemoryTimeline run() {
    const auto count = static_cast<int>(exe_.instructions().size());
    for (int i = 0; i < count; ++i) {
      const Instruction& instruction = at(i);
      const int until = is_comm(instruction.lane) ? finished(i) : i;
      for (const auto& address : instruction.in) touch(address, i, until);
      for (std::size_t o = 0; o < instruction.out.size(); ++o) write(instruction, o, i, until);
      if (instruction.plan->scratch_bytes > 0) {
        made_.values.push_back({.name = "scratch",
                                .op = instruction.op,
                                .scope = names_.scope(instruction.node),
                                .bytes = instruction.plan->scratch_bytes,
                                .first = i,
                                .last = until});
      }
    }
    sum_up(count);
    made_.arena_bytes = exe_.arena_bytes();
    made_.scratch_bytes = exe_.scratch_bytes();
    return std::move(made_);
  }

 private:
  const Instruction& at(int i) const { return exe_.instructions()[static_cast<std::size_t>(i)]; }

  // A collective has surely ended when an instruction of another lane that waits for it starts.
  int finished(int comm) const {
    int position = 0;
    const graph::Lane lane = at(comm).lane;
    for (int i = 0; i < comm; ++i) position += at(i).lane == lane ? 1 : 0;
    const auto count = static_cast<int>(exe_.instructions().size());
    for (int i = comm + 1; i < count; ++i) {
      const auto& waits = at(i).waits;
      const auto for_it = [&](const Wait& wait) { return wait.lane == lane && wait.count > position; };
      if (std::any_of(waits.begin(), waits.end(), for_it)) return i;
    }
    return count - 1;
  }

  void touch(const Address& address, int instruction, int until) {
    if (address.kind != Address::Kind::arena) return;
    const auto it = holds_.find(address.index);
    if (it == holds_.end()) return;
    ArenaValue& value = made_.values[it->second];
    value.last = std::max({value.last, instruction, until});
  }

  void write(const Instruction& instruction, std::size_t output, int position, int until) {
    const Address& address = instruction.out[output];
    if (address.kind != Address::Kind::arena) return;
    const graph::Graph& graph = exe_.graph();
    const graph::Node& node = graph.node(instruction.node);
    ArenaValue value{.op = instruction.op,
                     .scope = names_.scope(instruction.node),
                     .bytes = static_cast<std::size_t>(address.bytes),
                     .first = position,
                     .last = until};
    value.name = is_copy(graph, instruction) ? "copy for " + node.op->name
                 : output < node.out.size()  ? "%" + std::to_string(node.out[output])
                                             : node.op->name;
    // The previous value in the buffer is overwritten: it ends before this one begins.
    if (const auto it = holds_.find(address.index); it != holds_.end()) {
      ArenaValue& before = made_.values[it->second];
      before.last = std::min(before.last, position - 1);
    }
    holds_[address.index] = made_.values.size();
    made_.values.push_back(std::move(value));
  }

  void sum_up(int count) {
    std::vector<std::int64_t> change(static_cast<std::size_t>(count) + 1, 0);
    for (const auto& value : made_.values) {
      if (value.last < value.first) continue;
      change[static_cast<std::size_t>(value.first)] += static_cast<std::int64_t>(value.bytes);
      change[static_cast<std::size_t>(value.last) + 1] -= static_cast<std::int64_t>(value.bytes);
    }
    std::int64_t now = 0;
    for (int i = 0; i < count; ++i) {
      now += change[static_cast<std::size_t>(i)];
      made_.in_use.push_back(static_cast<std::size_t>(now));
      if (made_.in_use.back() > made_.peak_bytes()) made_.peak = i;
    }
  }

  const Executable& exe_;
  const graph::GraphNames& names_;
  std::map<int, std::size_t> holds_;  // buffer → its newest value
  MemoryTimeline made_;
};

double megabytes(std::size_t bytes) { return static_cast<double>(bytes) / 1e6; }

std::string row_of(const ArenaValue& value) {
  return fmt::format("  {:>10.3f}  {:<10} {:<28} {}\n", megabytes(value.bytes), value.name, value.op, value.scope);
}

}  // namespace

std::vector<ArenaValue> MemoryTimeline::alive_at(int instruction) const {
  std::vector<ArenaValue> alive;
  for (const auto& value : values) {
    if (value.first <= instruction && instruction <= value.last) alive.push_back(value);
  }
  std::stable_sort(alive.begin(), alive.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return alive;
}

std::shared_ptr<const ProgramProfile> profile_of(const Executable& executable) {
  auto profile = std::make_shared<ProgramProfile>();
  const graph::Graph& graph = executable.graph();
  const graph::GraphNames names(graph);
  double doubles = 0, all = 0;
  for (const auto& instruction : executable.instructions()) {
    const graph::Node& node = graph.node(instruction.node);
    profile->instructions.push_back({instruction.op, instruction.kernel, names.scope(instruction.node),
                                     to_string(node.device), instruction.lane, instruction.node,
                                     cost_of_instruction(graph, instruction)});
    const double flops = profile->instructions.back().cost.flops;
    all += flops;
    if (!node.in.empty() && graph.value(node.in[0]).type.dtype == DType::f64) doubles += flops;
  }
  if (doubles > all / 2) profile->dtype = DType::f64;
  profile->threads = executable.threads();
  profile->memory = Timeline(executable, names).run();
  return profile;
}

std::string memory_summary(const ProgramProfile& profile, std::size_t rows) {
  const MemoryTimeline& memory = profile.memory;
  std::string text =
      fmt::format("arena {:.3f} MB, scratch {:.3f} MB", megabytes(memory.arena_bytes), megabytes(memory.scratch_bytes));
  if (memory.peak < 0) return text + "; no value lives in the arena\n";
  const auto& peak = profile.instructions[static_cast<std::size_t>(memory.peak)];
  const auto alive = memory.alive_at(memory.peak);
  text += fmt::format("; most in use {:.3f} MB at instruction {} of {} ({}{}{}), {} values alive there:\n",
                      megabytes(memory.peak_bytes()), memory.peak, memory.in_use.size(), peak.op,
                      peak.scope.empty() ? "" : " @", peak.scope, alive.size());
  text += fmt::format("  {:>10}  {:<10} {:<28} {}\n", "MB", "value", "made by", "scope");
  for (std::size_t i = 0; i < std::min(rows, alive.size()); ++i) text += row_of(alive[i]);
  if (alive.size() > rows) {
    std::size_t rest = 0;
    for (std::size_t i = rows; i < alive.size(); ++i) rest += alive[i].bytes;
    text += fmt::format("  {:>10.3f}  in {} more\n", megabytes(rest), alive.size() - rows);
  }
  return text;
}

}  // namespace starling::runtime
