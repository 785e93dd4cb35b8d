#include "starling/runtime/execution/bound_program.h"

#include <algorithm>

#include "starling/base/error.h"
#include "starling/kernels/resources.h"
#include "starling/tensor/allocator.h"
#include "starling/tensor/device_memory.h"
#include "starling/tensor/memory_label.h"

namespace starling::runtime {
namespace {

Ref<Storage> make_arena(Device device, std::size_t bytes, const std::shared_ptr<Allocator>& from) {
  if (!from) return new Storage(device, bytes);
  const auto give_back = [from, bytes](void* data) { from->deallocate(data, bytes); };
  return new Storage(device, from->allocate(bytes), bytes, give_back, false);
}

}  // namespace

BoundProgram::BoundProgram(std::shared_ptr<const Executable> executable, const Container& container,
                           const InstanceOptions& options)
    : executable_(std::move(executable)), options_(options), lanes_(static_cast<std::size_t>(executable_->lanes())) {
  const Executable& exe = *executable_;
  const MemoryLabel label("a program's values");
  arena_ = make_arena(exe.device(), exe.arena_bytes(), options_.arena_allocator);
  variables_ = container.bind(exe.graph());
  check_variables();
  for (const auto& constant : exe.graph().constants) {
    constants_.push_back(exe.device().kind == DeviceKind::null ? constant : to(constant, exe.device()));
  }
  resolve();
}

void BoundProgram::check_variables() const {
  const Device device = executable_->device();
  for (const auto& variable : variables_) {
    const bool near = variable.device() == device || (options_.part && variable.device().kind == device.kind);
    check(near || device.kind == DeviceKind::null,
          "[instance] expected variable '{}' on {} with the rest of the program, got it on {}", variable.name(),
          to_string(device), to_string(variable.device()));
    check(static_cast<bool>(variable.impl()->storage),
          "[instance] expected variable '{}' to have memory here, got one of which every rank stores a piece",
          variable.name());
  }
  for (int assigned : executable_->assigned()) {
    const Tensor& variable = variables_[static_cast<std::size_t>(assigned)];
    check(!variable.impl()->storage->read_only(), "[instance] expected to write variable '{}', got read-only memory",
          variable.name());
  }
}

void BoundProgram::resolve() {
  const Executable& exe = *executable_;
  std::size_t operands = 0;
  for (const auto& instruction : exe.instructions()) operands += instruction.in.size() + instruction.out.size();
  addresses_.assign(operands, nullptr);
  input_patches_.resize(exe.graph().inputs.size());
  output_patches_.resize(exe.graph().outputs.size());
  variable_patches_.resize(variables_.size());
  changing_.assign(input_patches_.size() + output_patches_.size() + variable_patches_.size(), nullptr);
  void** next = addresses_.data();
  for (const auto& instruction : exe.instructions()) {
    void** in = next;
    for (const auto& address : instruction.in) settle(address, next++);
    void** out = next;
    for (const auto& address : instruction.out) settle(address, next++);
    void* arena = arena_->data();
    void* scratch = arena ? static_cast<std::byte*>(arena) + instruction.scratch.offset : nullptr;
    lanes_[static_cast<std::size_t>(instruction.lane)].push_back(
        {bound(*instruction.plan), in, out, scratch, &instruction, group_index(instruction)});
  }
  for (const auto& instruction : exe.instructions()) {
    for (const Wait& wait : instruction.waits) {
      if (wait.count > 0)
        lanes_[static_cast<std::size_t>(wait.lane)][static_cast<std::size_t>(wait.count) - 1].awaited = true;
    }
  }
}

// Fills the slot for good, or remembers that it changes from run to run.
void BoundProgram::settle(const Address& address, void** slot) {
  const auto index = static_cast<std::size_t>(address.index);
  const auto at = [&](void* base) { return base ? static_cast<std::byte*>(base) + address.offset : nullptr; };
  switch (address.kind) {
    case Address::Kind::arena: *slot = at(arena_->data()); break;
    case Address::Kind::constant: *slot = at(constants_[index].raw()); break;
    case Address::Kind::input: input_patches_[index].push_back({slot, address.offset}); break;
    case Address::Kind::output: output_patches_[index].push_back({slot, address.offset}); break;
    case Address::Kind::variable: variable_patches_[index].push_back({slot, address.offset}); break;
  }
}

const kernels::Plan* BoundProgram::bound(const kernels::Plan& plan) {
  const auto* open = options_.resources ? dynamic_cast<const kernels::ResourcePlan*>(&plan) : nullptr;
  if (!open) return &plan;
  own_plans_.push_back(open->bind(*options_.resources));
  return own_plans_.back().get();
}

std::size_t BoundProgram::position(const Step& step) const {
  return static_cast<std::size_t>(step.instruction - executable_->instructions().data());
}

void BoundProgram::put(const std::vector<Patch>& patches, void* base) {
  for (const auto& patch : patches) *patch.slot = static_cast<std::byte*>(base) + patch.offset;
}

void BoundProgram::put_operands(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  const graph::Graph& graph = executable_->graph();
  check(inputs.size() == graph.inputs.size() && outputs.size() == graph.outputs.size(),
        "[run] expected {} inputs and {} outputs, got {} and {}", graph.inputs.size(), graph.outputs.size(),
        inputs.size(), outputs.size());
  const auto check_operand = [&](const Tensor& given, graph::ValueId value, const char* what, std::size_t i) {
    const TensorType& wanted = graph.value(value).type;
    const bool fits = given.dtype() == wanted.dtype && given.shape() == wanted.shape && given.contiguous() &&
                      given.device() == executable_->device();
    if (fits) return;
    fail("[run] expected {} {} to be a dense {} on {}, got {} on {}", what, i, to_string(wanted),
         to_string(executable_->device()), to_string(given.type()), to_string(given.device()));
  };
  auto known = changing_.begin();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_operand(inputs[i], graph.inputs[i], "input", i);
    put(input_patches_[i], *known++ = inputs[i].impl()->address());
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    check_operand(outputs[i], graph.outputs[i], "output", i);
    put(output_patches_[i], *known++ = outputs[i].impl()->address());
  }
  put_variables();
}

void BoundProgram::put_variables() {
  auto known = changing_.begin() + static_cast<std::ptrdiff_t>(input_patches_.size() + output_patches_.size());
  for (std::size_t i = 0; i < variables_.size(); ++i, ++known) {
    void* address = variables_[i].impl()->storage ? variables_[i].impl()->address() : variables_[i].raw();
    if (address == *known) continue;
    put(variable_patches_[i], *known = address);
  }
}

std::size_t BoundProgram::group_index(const Instruction& instruction) {
  const Symbol name = comm_group(executable_->graph().node(instruction.node));
  const auto known =
      std::find_if(groups_.begin(), groups_.end(), [&](const auto& group) { return group.name == name; });
  const auto index = static_cast<std::size_t>(known - groups_.begin());
  if (known == groups_.end()) groups_.push_back({name, instruction.op, nullptr});
  return index;
}

void BoundProgram::set_world(const CommWorld& world) {
  for (BoundGroup& group : groups_) {
    Comm* comm = find_group(world, group.name, group.op).comm;
    if (comm != group.comm) group.comm = comm;  // no write if unchanged: a running lane may be reading it
  }
}

void BoundProgram::set_profiler(Profiler* profiler) {
  profiler_ = profiler;
  profile_ = profiler_ ? profiler_->watch(executable_) : nullptr;
}

void BoundProgram::run(const Step& step, void* stream) const {
  kernels::RunContext context{stream, groups_[step.group].comm};
  const kernels::Launch launch{step.in, step.out, step.scratch, context};
  if (!profiler_ || executable_->device().kind == DeviceKind::cuda) {
    step.plan->run(launch);
    return;
  }
  const auto begin = profiler_->now();
  step.plan->run(launch);
  record(step, begin, profiler_->now());
}

void BoundProgram::record(const Step& step, std::int64_t begin_ns, std::int64_t end_ns) const {
  const auto at = position(step);
  const auto& what = profile_->instructions[at];
  profiler_->record({what.op.c_str(), what.kernel.c_str(), options_.rank, static_cast<int>(step.instruction->lane),
                     begin_ns, end_ns, profile_, static_cast<int>(at)});
}

void BoundProgram::bump_versions() const {
  for (int variable : executable_->assigned()) {
    variables_[static_cast<std::size_t>(variable)].impl()->storage->bump_version();
  }
}

}  // namespace starling::runtime
