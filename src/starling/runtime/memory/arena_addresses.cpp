#include <algorithm>

#include "starling/runtime/lowering/lowering.h"

namespace starling::runtime {

// True for programs of a GPU so small that each value and each kernel's scratch has memory of its own: steps that share
// none may run side by side.
bool Lowering::keeps_apart() const {
  constexpr std::size_t kFew = std::size_t{128} << 20;
  if (!exe_->side_by_side()) return false;
  std::size_t bytes = 0;
  for (const Memory& memory : memory_) bytes += memory.is_buffer() ? memory.bytes : 0;
  for (const Instruction& instruction : exe_->instructions_) bytes += instruction.plan->scratch_bytes;
  return bytes <= kFew;
}

// Lifetimes of the arena's buffers, scratch not counted.
std::vector<BufferUse> Lowering::value_uses(std::vector<int>& index_of) const {
  std::vector<BufferUse> uses;
  const int last = static_cast<int>(exe_->instructions_.size());
  const bool apart = keeps_apart();
  index_of.assign(memory_.size(), -1);
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    const Memory& memory = memory_[i];
    if (!memory.is_buffer()) continue;
    index_of[i] = static_cast<int>(uses.size());
    if (!options_.program.reuse_memory || apart)
      uses.push_back({memory.bytes, 0, last, LaneClock(times_.lanes(), 0), exe_->lane_size_});
    else
      uses.push_back({memory.bytes, std::max(memory.first, 0), memory.last, memory.born, memory.touched});
  }
  return uses;
}

// Lifetimes of scratch: one per instruction, or one per lane when shared.
std::vector<BufferUse> Lowering::scratch_uses(bool shared) const {
  const auto& instructions = exe_->instructions_;
  const BufferUse always{0, 0, static_cast<int>(instructions.size()), LaneClock(times_.lanes(), 0), exe_->lane_size_};
  std::vector<BufferUse> uses(shared ? times_.lanes() : instructions.size(), always);
  const bool apart = keeps_apart();
  for (std::size_t i = 0; i < instructions.size(); ++i) {
    const auto lane = static_cast<std::size_t>(instructions[i].lane);
    const auto step = static_cast<int>(i);
    BufferUse& use = uses[shared ? lane : i];
    use.bytes = std::max(use.bytes, instructions[i].plan->scratch_bytes);
    if (!shared && !apart) use = {use.bytes, step, step, times_.start_of(i), times_.end_of(i, instructions[i].lane)};
  }
  return uses;
}

// Shared scratch at one address stays in the cache from kernel to kernel. Scratch per instruction is used only where it
// saves a significant amount of memory; on a GPU, whose kernels need much of it and whose cache is small, where it
// saves any.
void Lowering::place_buffers() {
  const std::size_t worth = exe_->device_.kind == DeviceKind::cuda ? 4096 : 32;
  std::vector<int> index_of;
  std::vector<BufferUse> values = value_uses(index_of);
  for (const auto& use : values) exe_->unshared_bytes_ += use.bytes;
  const auto with = [&](const std::vector<BufferUse>& scratch) {
    std::vector<BufferUse> all = values;
    all.insert(all.end(), scratch.begin(), scratch.end());
    if (times_.lanes() == 1) {
      for (auto& use : all) use.born.clear();
    }
    return all;
  };
  bool shared = !keeps_apart();
  std::vector<BufferUse> uses = with(scratch_uses(shared));
  MemoryPlan plan = plan_memory(uses);
  if (shared && options_.program.reuse_memory && exe_->scratch_bytes_ > plan.arena_bytes / worth) {
    std::vector<BufferUse> spread = with(scratch_uses(false));
    MemoryPlan other = plan_memory(spread);
    if (other.arena_bytes + plan.arena_bytes / worth <= plan.arena_bytes) {
      shared = false;
      uses = std::move(spread);
      plan = std::move(other);
    }
  }
  exe_->arena_bytes_ = plan.arena_bytes;
  exe_->demand_bytes_ = peak_demand(uses);
  resolve(plan, index_of, values.size(), shared);
}

void Lowering::resolve(const MemoryPlan& plan, const std::vector<int>& index_of, std::size_t values, bool shared) {
  const auto settle = [&](Address& address) {
    if (address.kind != Address::Kind::arena) return;
    const int use = index_of[static_cast<std::size_t>(address.index)];
    address.offset += static_cast<std::int64_t>(plan.offsets[static_cast<std::size_t>(use)]);
  };
  for (std::size_t i = 0; i < exe_->instructions_.size(); ++i) {
    Instruction& instruction = exe_->instructions_[i];
    for (auto& address : instruction.in) settle(address);
    for (auto& address : instruction.out) settle(address);
    const std::size_t scratch = values + (shared ? static_cast<std::size_t>(instruction.lane) : i);
    instruction.scratch.offset = static_cast<std::int64_t>(plan.offsets[scratch]);
  }
}

}  // namespace starling::runtime
