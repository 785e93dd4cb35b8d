#include "starling/runtime/lowering/lowering.h"

#include <algorithm>

#include "starling/base/error.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/api/state.h"
#include "starling/ops/def/attrs/control.h"
#include "starling/ops/def/registry.h"
#include "starling/runtime/execution/device_turn.h"
#include "starling/runtime/lowering/control_plan.h"
#include "starling/runtime/memory/alias_check.h"
#include "starling/tensor/bytes.h"

namespace starling::runtime {
namespace {

std::vector<bool> strided(const std::vector<kernels::ArgDesc>& args) {
  std::vector<bool> which;
  for (const auto& arg : args) which.push_back(!arg.contiguous());
  return which;
}

// Bytes from the first to the last element of an operand.
std::int64_t spanned_bytes(const kernels::ArgDesc& desc) {
  std::int64_t last = 0;
  for (int i = 0; i < desc.shape.rank(); ++i) {
    if (desc.shape[i] == 0) return 0;
    if (desc.strides[i] > 0) last += (desc.shape[i] - 1) * desc.strides[i];
  }
  return (last + 1) * static_cast<std::int64_t>(size_of(desc.dtype));
}

}  // namespace

Device program_device(const graph::Graph& graph) {
  for (const auto& node : graph.nodes()) {
    if (!node.pinned && node.device.kind != DeviceKind::cpu) return node.device;
  }
  for (const auto& node : graph.nodes()) {
    if (!node.pinned && !node.in.empty()) return node.device;
  }
  for (const auto& node : graph.nodes()) {
    if (!node.pinned) return node.device;
  }
  for (const auto& variable : graph.variables) {
    if (variable.tensor.defined()) return variable.tensor.device();
  }
  return kCpu;
}

Lowering::Lowering(graph::Graph graph, const ExecutableOptions& options)
    : exe_(std::make_shared<Executable>()),
      options_(options),
      graph_(exe_->graph_ = std::move(graph)),
      stored_(stored_values(graph_, program_device(graph_))),
      lives_(graph_, stored_.descs),
      times_(graph_),
      users_(graph_.users()),
      locations_(graph_.values().size()),
      variable_memory_(graph_.variables.size(), -1) {
  exe_->device_ = program_device(graph_);
  exe_->threads_ = options.program.lane_threads();
  exe_->side_by_side_ = exe_->device_.kind == DeviceKind::cuda && options.program.branches > 1;
  for (graph::ValueId id = 0; id < static_cast<graph::ValueId>(locations_.size()); ++id)
    at(id) = {-1, lives_.offset(id), lives_.desc(id)};
}

std::shared_ptr<const Executable> Lowering::run() {
  const auto turn = take_device_turn(exe_->device_);
  for (graph::NodeId id = 0; id < graph_.size(); ++id) lower(id);
  finish_outputs();
  exe_->lane_size_ = times_.sizes();
  place_buffers();
  if (options_.program.check_aliases) check_aliases(*exe_);
  return exe_;
}

int Lowering::new_memory(Address address, std::size_t bytes, graph::NodeId maker) {
  Memory made;
  made.address = address;
  made.bytes = bytes;
  made.needed_until = maker;
  made.born = made.written = made.touched = LaneClock(times_.lanes(), 0);
  memory_.push_back(std::move(made));
  return static_cast<int>(memory_.size()) - 1;
}

void Lowering::lower(graph::NodeId id) {
  const graph::Node& node = graph_.node(id);
  times_.reach(id);
  if (is_source(node)) return lower_source(id);
  if (is_op(node, "assign")) return lower_assign(id);
  if (!node.out.empty() && lives_.is_view(node.out[0])) {
    at(node.out[0]).memory = at(node.in[0]).memory;
    return;
  }
  // A concat whose operands were written into its result.
  if (!node.out.empty() && stored_.is_joined(node.out[0])) {
    at(node.out[0]).memory = joined_memory(id, node.out[0]);
    return;
  }
  lower_op(id);
}

void Lowering::lower_source(graph::NodeId id) {
  const graph::Node& node = graph_.node(id);
  const auto index = static_cast<int>(source_index(node));
  const graph::ValueId out = node.out[0];
  Address address;
  address.index = index;
  address.kind = is_op(node, "input")      ? Address::Kind::input
                 : is_op(node, "variable") ? Address::Kind::variable
                                           : Address::Kind::constant;
  if (address.kind == Address::Kind::variable) {
    int& shared = variable_memory_[static_cast<std::size_t>(index)];
    if (shared < 0) shared = new_memory(address, bytes_of(graph_.value(out).type), 0);
    at(out).memory = shared;
    if (!lives_.outlived(id)) return;
    const Location from = at(out);
    at(out).memory = new_memory({}, bytes_of(graph_.value(out).type), id);
    memory_.back().needed_until = lives_.last_use(out);
    emit_copy(id, from, at(out));
    return;
  }
  at(out).memory = new_memory(address, bytes_of(graph_.value(out).type), 0);
}

// Variable that this output may be written into directly: it is assigned there, nobody reads the old value later, and
// the op either overwrites exactly that operand or does not read the variable at all.
int Lowering::variable_target(graph::NodeId id, std::size_t output) {
  const graph::Node& node = graph_.node(id);
  const graph::ValueId out = node.out[output];
  for (graph::NodeId user : users_[static_cast<std::size_t>(out)]) {
    if (!is_op(graph_.node(user), "assign")) continue;
    const auto variable = static_cast<int>(source_index(graph_.node(user)));
    if (lives_.crosses_assign(variable, id, user, lives_.last_use(out))) continue;
    if (!lives_.variable_read_between(variable, id, true, user)) return variable;
    if (lives_.variable_read_between(variable, id, false, user) || node.op->inplace < 0) continue;
    const auto operand = static_cast<std::size_t>(node.op->inplace) + output;
    if (operand >= node.in.size()) continue;
    const Location& from = at(node.in[operand]);
    const bool same = from.memory == variable_memory_[static_cast<std::size_t>(variable)] && from.offset == 0 &&
                      from.desc.contiguous();
    if (same && may_overwrite(node, from)) return variable;
  }
  return -1;
}

// True if the op may overwrite this operand: it reads that memory nowhere else or, element by element, in the same
// order.
bool Lowering::may_overwrite(const graph::Node& node, const Location& operand) const {
  int readers = 0;
  bool alike = true;
  for (graph::ValueId in : node.in) {
    const Location& other = locations_[static_cast<std::size_t>(in)];
    if (other.memory != operand.memory) continue;
    ++readers;
    alike &= other.offset == operand.offset && other.desc == operand.desc;
  }
  return readers == 1 || (alike && node.op->elementwise());
}

// Operand that the op may overwrite and whose memory is not needed after this node, nor still read on another lane.
int Lowering::dying_operand(graph::NodeId id, std::size_t output) {
  const graph::Node& node = graph_.node(id);
  const auto operand = static_cast<std::size_t>(node.op->inplace) + output;
  if (!options_.program.reuse_memory || node.op->inplace < 0 || operand >= node.in.size()) return -1;
  const LaneClock now = times_.ready(id);
  const auto usable = [&](std::size_t i) {
    const graph::ValueId in = node.in[i];
    const Location& from = at(in);
    if (from.memory < 0 || !memory_of(in).is_buffer() || from.offset != 0) return false;
    const kernels::ArgDesc& to = at(node.out[output]).desc;
    const bool dense = from.desc.contiguous() && to.contiguous();
    if ((!dense && from.desc != to) || memory_of(in).bytes != kernels::bytes_of(to)) return false;
    if (memory_of(in).needed_until > id || lives_.last_use(lives_.root(in)) > id) return false;
    if (!covers(now, memory_of(in).touched)) return false;
    return may_overwrite(node, from);
  };
  if (usable(operand)) return at(node.in[operand]).memory;
  if (!node.op->elementwise()) return -1;
  for (std::size_t i = 0; i < node.in.size(); ++i) {
    const bool alike = graph_.value(node.in[i]).type == graph_.value(node.out[output]).type;
    if (alike && usable(i)) return at(node.in[i]).memory;
  }
  return -1;
}

// Memory of a concat's result, from the first of its operands on.
int Lowering::joined_memory(graph::NodeId id, graph::ValueId whole) {
  const auto [slot, fresh] = joined_memory_.try_emplace(whole, -1);
  if (fresh) {
    slot->second = new_memory({}, kernels::bytes_of(at(whole).desc), id);
    memory_.back().needed_until = lives_.last_use(whole);
  }
  return slot->second;
}

int Lowering::choose_memory(graph::NodeId id, std::size_t output) {
  const graph::ValueId out = graph_.node(id).out[output];
  if (stored_.is_piece(out)) return joined_memory(id, stored_.piece(out).whole);
  const std::size_t bytes = kernels::bytes_of(at(out).desc);
  const int variable = variable_target(id, output);
  if (variable >= 0) {
    int& shared = variable_memory_[static_cast<std::size_t>(variable)];
    if (shared < 0) shared = new_memory({Address::Kind::variable, variable, 0}, bytes, id);
    lives_.variable_read(variable, lives_.last_use(out));
    return shared;
  }
  const auto result = std::find(graph_.outputs.begin(), graph_.outputs.end(), out);
  if (result != graph_.outputs.end()) {
    return new_memory({Address::Kind::output, static_cast<int>(result - graph_.outputs.begin()), 0}, bytes, id);
  }
  const int reused = dying_operand(id, output);
  return reused >= 0 ? reused : new_memory({}, bytes, id);
}

void Lowering::lower_op(graph::NodeId id) {
  const graph::Node& node = graph_.node(id);
  std::vector<Location> in, out;
  for (graph::ValueId value : node.in) in.push_back(at(value));
  for (std::size_t i = 0; i < node.out.size(); ++i) {
    const graph::ValueId value = node.out[i];
    const int chosen = choose_memory(id, i);
    at(value).memory = chosen;
    at(value).offset = stored_.is_piece(value) ? stored_.piece(value).offset : 0;
    Memory& memory = memory_[static_cast<std::size_t>(chosen)];
    memory.needed_until = std::max(memory.needed_until, lives_.last_use(value));
    out.push_back(at(value));
  }
  emit(id, *node.op, node.attrs, std::move(in), out);
}

void Lowering::lower_assign(graph::NodeId id) {
  const graph::Node& node = graph_.node(id);
  const auto variable = static_cast<int>(source_index(node));
  exe_->assigned_.push_back(variable);
  int& shared = variable_memory_[static_cast<std::size_t>(variable)];
  const TensorType& type = graph_.variables[static_cast<std::size_t>(variable)].type;
  if (shared < 0) shared = new_memory({Address::Kind::variable, variable, 0}, bytes_of(type), id);
  const Location& from = at(node.in[0]);
  if (from.memory == shared && from.offset == 0 && from.desc.contiguous()) return;
  emit_copy(id, from, {shared, 0, kernels::dense(type)});
}

void Lowering::finish_outputs() {
  for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
    const Location& from = at(graph_.outputs[i]);
    const Address& address = memory_[static_cast<std::size_t>(from.memory)].address;
    if (address.kind == Address::Kind::output && address.index == static_cast<int>(i) && from.desc.contiguous() &&
        from.offset == 0)
      continue;
    const TensorType& type = graph_.value(graph_.outputs[i]).type;
    const int target = new_memory({Address::Kind::output, static_cast<int>(i), 0}, bytes_of(type), lives_.end());
    emit_copy(graph_.value(graph_.outputs[i]).node, from, {target, 0, kernels::dense(type)});
  }
}

void Lowering::emit_copy(graph::NodeId id, const Location& from, const Location& to) {
  static const OpDef& op = find_op("identity");
  emit(id, op, op::NoAttrs{}, {from}, {to});
}

void Lowering::touch(int index, bool writes, const LaneClock& start, const LaneClock& end) {
  Memory& memory = memory_[static_cast<std::size_t>(index)];
  const int position = static_cast<int>(exe_->instructions_.size());
  if (memory.first < 0) {
    memory.first = position;
    memory.born = start;
  }
  memory.last = position;
  merge(memory.touched, end);
  if (writes) merge(memory.written, end);
}

void Lowering::emit(graph::NodeId id, const OpDef& op, const Attrs& attrs, std::vector<Location> in,
                    const std::vector<Location>& out) {
  std::vector<kernels::ArgDesc> in_descs, out_descs;
  for (const auto& location : in) in_descs.push_back(location.desc);
  for (const auto& location : out) out_descs.push_back(location.desc);
  kernels::Planned planned;
  if (is_control(op)) {
    planned = plan_control(graph_, graph_.node(id), exe_->device_, options_);
  } else if (options_.own_kernels) {
    planned = options_.own_kernels({op, attrs, in_descs, out_descs, exe_->threads_});
  }
  if (!planned.plan) {
    planned = plan_kernel(op, exe_->device_.kind, attrs, in_descs, out_descs,
                          {.threads = exe_->threads_, .reference_only = options_.program.reference_only});
  }
  if (planned.densify.empty()) planned.densify = strided(in_descs);
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (!planned.densify[i]) continue;
    const TensorType type{in[i].desc.dtype, in[i].desc.shape};
    const Location target{new_memory({}, bytes_of(type), id), 0, kernels::dense(type)};
    emit_copy(id, in[i], target);
    in[i] = target;
  }
  LaneClock start = times_.ready(id);
  for (const auto& location : in) merge(start, memory_[static_cast<std::size_t>(location.memory)].written);
  for (const auto& location : out) merge(start, memory_[static_cast<std::size_t>(location.memory)].touched);
  Instruction instruction;
  instruction.op = op.name;
  instruction.kernel = planned.kernel;
  instruction.node = id;
  instruction.lane = graph_.node(id).lane;
  instruction.plan = std::move(planned.plan);
  for (const auto& location : in) instruction.in.push_back(address_of(location));
  for (const auto& location : out) instruction.out.push_back(address_of(location));
  for (const auto& location : in) instruction.in_desc.push_back(location.desc);
  for (const auto& location : out) instruction.out_desc.push_back(location.desc);
  times_.wait(instruction, start);
  const LaneClock end = times_.add(id, start);
  for (const auto& location : in) touch(location.memory, false, start, end);
  for (const auto& location : out) touch(location.memory, true, start, end);
  exe_->scratch_bytes_ = std::max(exe_->scratch_bytes_, instruction.plan->scratch_bytes);
  exe_->instructions_.push_back(std::move(instruction));
}

Address Lowering::address_of(const Location& location) const {
  Address address = memory_[static_cast<std::size_t>(location.memory)].address;
  if (address.kind == Address::Kind::arena) address.index = location.memory;
  address.offset = location.offset;
  address.bytes = spanned_bytes(location.desc);
  return address;
}

std::shared_ptr<const Executable> Executable::build(graph::Graph graph, const graph::ProgramOptions& options,
                                                    OwnKernels own_kernels) {
  return Lowering(std::move(graph), {options, std::move(own_kernels)}).run();
}

}  // namespace starling::runtime
