#include "starling/runtime/lowering.h"

#include <algorithm>

#include "starling/base/error.h"
#include "starling/graph/dependencies.h"
#include "starling/graph/next_forward.h"
#include "starling/ops/control.h"
#include "starling/ops/registry.h"
#include "starling/ops/state.h"
#include "starling/runtime/alias_check.h"
#include "starling/runtime/control_plan.h"

namespace starling {
namespace {

std::size_t bytes_of(const TensorType& type) {
  return static_cast<std::size_t>(type.shape.numel()) * size_of(type.dtype);
}

std::vector<bool> strided(const std::vector<ArgDesc>& args) {
  std::vector<bool> which;
  for (const auto& arg : args) which.push_back(!arg.contiguous());
  return which;
}

// From the first to the last element of an operand.
std::int64_t spanned_bytes(const ArgDesc& desc) {
  std::int64_t last = 0;
  for (int i = 0; i < desc.shape.rank(); ++i) {
    if (desc.shape[i] == 0) return 0;
    if (desc.strides[i] > 0) last += (desc.shape[i] - 1) * desc.strides[i];
  }
  return (last + 1) * static_cast<std::int64_t>(size_of(desc.dtype));
}

}  // namespace

Device program_device(const Graph& graph) {
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

Lowering::Lowering(Graph graph, const ExecutableOptions& options)
    : exe_(std::make_shared<Executable>()), options_(options), graph_(exe_->graph_) {
  exe_->graph_ = std::move(graph);
  exe_->device_ = program_device(graph_);
  exe_->threads_ = options.threads;
  users_ = graph_.users();
  end_ = graph_.size();
  locations_.resize(graph_.values().size());
  variable_reads_.resize(graph_.variables.size());
  variable_memory_.assign(graph_.variables.size(), -1);
  before_ = dependencies(graph_);
  for (const auto& node : graph_.nodes()) lanes_ = std::max(lanes_, static_cast<std::size_t>(node.lane) + 1);
  done_.assign(graph_.nodes().size(), LaneClock(lanes_, 0));
  ended_.resize(lanes_);
  exe_->lane_size_.assign(lanes_, 0);
  assigns_.resize(graph_.variables.size());
  for (NodeId id = 0; id < graph_.size(); ++id) {
    if (is_op(graph_.node(id), "assign"))
      assigns_[static_cast<std::size_t>(source_index(graph_.node(id)))].push_back(id);
  }
}

std::shared_ptr<const Executable> Lowering::run() {
  find_views();
  find_last_uses();
  find_late();
  for (NodeId id = 0; id < graph_.size(); ++id) lower(id);
  finish_outputs();
  place_buffers();
  if (options_.check_aliases) check_aliases(*exe_);
  return exe_;
}

// A view's strides follow from its operand's, whatever memory that gets.
void Lowering::find_views() {
  view_of_.resize(graph_.values().size());
  for (NodeId id = 0; id < graph_.size(); ++id) {
    const Node& node = graph_.node(id);
    for (ValueId out : node.out) {
      view_of_[static_cast<std::size_t>(out)] = out;
      at(out).desc = dense(graph_.value(out).type);
    }
    if (!node.op->view) continue;
    const Location& base = at(node.in[0]);
    const auto view = node.op->view({base.desc.shape, base.desc.strides, node.attrs});
    if (!view) continue;
    Location& made = at(node.out[0]);
    made.desc = {base.desc.dtype, view->shape, view->strides};
    made.offset = base.offset + view->offset * static_cast<std::int64_t>(size_of(base.desc.dtype));
    view_of_[static_cast<std::size_t>(node.out[0])] = view_of_[static_cast<std::size_t>(node.in[0])];
  }
}

void Lowering::find_last_uses() {
  last_use_.assign(graph_.values().size(), -1);
  const auto use = [&](ValueId value, int step) {
    int& last = last_use_[static_cast<std::size_t>(view_of_[static_cast<std::size_t>(value)])];
    last = std::max(last, step);
  };
  for (NodeId id = 0; id < graph_.size(); ++id) {
    const Node& node = graph_.node(id);
    for (ValueId in : node.in) use(in, id);
    for (ValueId out : node.out) use(out, id);
  }
  for (ValueId out : graph_.outputs) use(out, end_);
  const auto read = [&](ValueId value, int step) {
    const NodeId maker = graph_.value(view_of_[static_cast<std::size_t>(value)]).node;
    if (!is_op(graph_.node(maker), "variable")) return;
    variable_reads_[static_cast<std::size_t>(source_index(graph_.node(maker)))].push_back(outlived(maker) ? maker
                                                                                                          : step);
  };
  for (NodeId id = 0; id < graph_.size(); ++id) {
    for (ValueId in : graph_.node(id).in) read(in, id);
  }
  for (ValueId out : graph_.outputs) read(out, end_);
}

// Collectives whose results the next run takes may outlast this one: what they use must not be in its way.
void Lowering::find_late() {
  outlasting_.assign(graph_.nodes().size(), false);
  apart_.assign(graph_.values().size(), false);
  for (NodeId id = 0; id < graph_.size(); ++id) {
    const Node& node = graph_.node(id);
    if (!is_op(node, "assign") || node.lane != Lane::comm) continue;
    if (!is_late(graph_.variables[static_cast<std::size_t>(source_index(node))])) continue;
    const NodeId maker = graph_.value(node.in[0]).node;
    outlasting_[static_cast<std::size_t>(id)] = outlasting_[static_cast<std::size_t>(maker)] = true;
    for (ValueId in : graph_.node(maker).in)
      apart_[static_cast<std::size_t>(view_of_[static_cast<std::size_t>(in)])] = true;
  }
}

// A value read from a variable that is still needed when the variable gets another one: it must be copied.
bool Lowering::outlived(NodeId id) const {
  const Node& node = graph_.node(id);
  const int last = last_use_[static_cast<std::size_t>(node.out[0])];
  for (int assign : assigns_[static_cast<std::size_t>(source_index(node))]) {
    if (assign > id && last > assign) return true;
  }
  return false;
}

int Lowering::new_memory(Place place, std::size_t bytes, NodeId maker) {
  Memory made;
  made.place = place;
  made.bytes = bytes;
  made.needed_until = maker;
  made.born = made.written = made.touched = LaneClock(lanes_, 0);
  memory_.push_back(std::move(made));
  return static_cast<int>(memory_.size()) - 1;
}

void Lowering::lower(NodeId id) {
  const Node& node = graph_.node(id);
  done_[static_cast<std::size_t>(id)] = depends_on(id);
  if (is_source(node)) return lower_source(id);
  if (is_op(node, "assign")) return lower_assign(id);
  if (!node.out.empty() && view_of_[static_cast<std::size_t>(node.out[0])] != node.out[0]) {
    at(node.out[0]).memory = at(node.in[0]).memory;
    return;
  }
  lower_op(id);
}

void Lowering::lower_source(NodeId id) {
  const Node& node = graph_.node(id);
  const auto index = static_cast<int>(source_index(node));
  const ValueId out = node.out[0];
  Place place;
  place.index = index;
  place.kind = is_op(node, "input")      ? Place::Kind::input
               : is_op(node, "variable") ? Place::Kind::variable
                                         : Place::Kind::constant;
  if (place.kind == Place::Kind::variable) {
    int& shared = variable_memory_[static_cast<std::size_t>(index)];
    if (shared < 0) shared = new_memory(place, bytes_of(graph_.value(out).type), 0);
    at(out).memory = shared;
    if (!outlived(id)) return;
    const Location from = at(out);
    at(out).memory = new_memory({}, bytes_of(graph_.value(out).type), id);
    memory_.back().needed_until = last_use_[static_cast<std::size_t>(out)];
    emit_copy(id, from, at(out));
    return;
  }
  at(out).memory = new_memory(place, bytes_of(graph_.value(out).type), 0);
}

// Whoever reads it after the assign means the new value: what outlives the old one was copied.
bool Lowering::variable_read_between(int variable, int step, bool including, int assign) const {
  for (int read : variable_reads_[static_cast<std::size_t>(variable)]) {
    if (read > assign) continue;
    if (read > step || (including && read == step)) return true;
  }
  return false;
}

// The variable that this output may be written into at once: it is assigned there, nobody reads the old value later,
// and the op either overwrites exactly that operand or does not read the variable at all.
int Lowering::variable_target(NodeId id, std::size_t output) {
  const Node& node = graph_.node(id);
  const ValueId out = node.out[output];
  for (NodeId user : users_[static_cast<std::size_t>(out)]) {
    if (!is_op(graph_.node(user), "assign")) continue;
    const auto variable = static_cast<int>(source_index(graph_.node(user)));
    if (crosses_assign(variable, id, user, last_use_[static_cast<std::size_t>(out)])) continue;
    if (!variable_read_between(variable, id, true, user)) return variable;
    if (variable_read_between(variable, id, false, user) || node.op->inplace < 0) continue;
    const auto operand = static_cast<std::size_t>(node.op->inplace) + output;
    if (operand >= node.in.size()) continue;
    const Location& from = at(node.in[operand]);
    const bool same = from.memory == variable_memory_[static_cast<std::size_t>(variable)] && from.offset == 0 &&
                      from.desc.contiguous();
    if (same && may_overwrite(node, from)) return variable;
  }
  return -1;
}

// A value laid into the variable at its maker must not meet another one: no other assign before its own, none while it
// is still read.
bool Lowering::crosses_assign(int variable, int maker, int assign, int last_read) const {
  for (int other : assigns_[static_cast<std::size_t>(variable)]) {
    if (other > maker && other < assign) return true;
    if (other > assign && last_read > other) return true;
  }
  return false;
}

// Whether the op may write over this operand: it reads that memory nowhere else or, element by element, in the same
// order.
bool Lowering::may_overwrite(const Node& node, const Location& operand) const {
  int readers = 0;
  bool alike = true;
  for (ValueId in : node.in) {
    const Location& other = locations_[static_cast<std::size_t>(in)];
    if (other.memory != operand.memory) continue;
    ++readers;
    alike &= other.offset == operand.offset && other.desc == operand.desc;
  }
  return readers == 1 || (alike && node.op->elementwise());
}

// An operand whose memory nobody needs after this node, nor still reads on another lane, and that the op may overwrite.
int Lowering::dying_operand(NodeId id, std::size_t output) {
  const Node& node = graph_.node(id);
  const auto operand = static_cast<std::size_t>(node.op->inplace) + output;
  if (!options_.reuse_memory || node.op->inplace < 0 || operand >= node.in.size()) return -1;
  const LaneClock now = ready(id);
  const auto usable = [&](std::size_t i) {
    const ValueId in = node.in[i];
    const ValueId root = view_of_[static_cast<std::size_t>(in)];
    const Location& from = at(in);
    if (from.memory < 0 || !memory_of(in).is_buffer() || from.offset != 0 || !from.desc.contiguous()) return false;
    if (memory_of(in).bytes != bytes_of(graph_.value(node.out[output]).type)) return false;
    if (memory_of(in).needed_until > id || last_use_[static_cast<std::size_t>(root)] > id) return false;
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

int Lowering::choose_memory(NodeId id, std::size_t output) {
  const ValueId out = graph_.node(id).out[output];
  const std::size_t bytes = bytes_of(graph_.value(out).type);
  const int variable = variable_target(id, output);
  if (variable >= 0) {
    int& shared = variable_memory_[static_cast<std::size_t>(variable)];
    if (shared < 0) shared = new_memory({Place::Kind::variable, variable, 0}, bytes, id);
    variable_reads_[static_cast<std::size_t>(variable)].push_back(last_use_[static_cast<std::size_t>(out)]);
    return shared;
  }
  const auto result = std::find(graph_.outputs.begin(), graph_.outputs.end(), out);
  if (result != graph_.outputs.end()) {
    return new_memory({Place::Kind::output, static_cast<int>(result - graph_.outputs.begin()), 0}, bytes, id);
  }
  const bool apart = apart_[static_cast<std::size_t>(out)] || outlasting_[static_cast<std::size_t>(id)];
  const int reused = apart ? -1 : dying_operand(id, output);
  if (reused >= 0) return reused;
  const int made = new_memory({}, bytes, id);
  memory_.back().apart = apart;
  return made;
}

void Lowering::lower_op(NodeId id) {
  const Node& node = graph_.node(id);
  std::vector<Location> in, out;
  for (ValueId value : node.in) in.push_back(at(value));
  for (std::size_t i = 0; i < node.out.size(); ++i) {
    const ValueId value = node.out[i];
    const int chosen = choose_memory(id, i);
    at(value).memory = chosen;
    at(value).offset = 0;
    Memory& memory = memory_[static_cast<std::size_t>(chosen)];
    memory.needed_until = std::max(memory.needed_until, last_use_[static_cast<std::size_t>(value)]);
    out.push_back(at(value));
  }
  emit(id, *node.op, node.attrs, std::move(in), out);
}

void Lowering::lower_assign(NodeId id) {
  const Node& node = graph_.node(id);
  const auto variable = static_cast<int>(source_index(node));
  exe_->assigned_.push_back(variable);
  int& shared = variable_memory_[static_cast<std::size_t>(variable)];
  const TensorType& type = graph_.variables[static_cast<std::size_t>(variable)].type;
  if (shared < 0) shared = new_memory({Place::Kind::variable, variable, 0}, bytes_of(type), id);
  const Location& from = at(node.in[0]);
  if (from.memory == shared && from.offset == 0 && from.desc.contiguous()) return;
  emit_copy(id, from, {shared, 0, dense(type)});
}

void Lowering::finish_outputs() {
  for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
    const Location& from = at(graph_.outputs[i]);
    const Place& place = memory_[static_cast<std::size_t>(from.memory)].place;
    if (place.kind == Place::Kind::output && place.index == static_cast<int>(i) && from.desc.contiguous() &&
        from.offset == 0)
      continue;
    const TensorType& type = graph_.value(graph_.outputs[i]).type;
    const int target = new_memory({Place::Kind::output, static_cast<int>(i), 0}, bytes_of(type), end_);
    emit_copy(graph_.value(graph_.outputs[i]).node, from, {target, 0, dense(type)});
  }
}

void Lowering::emit_copy(NodeId id, const Location& from, const Location& to) {
  static const OpDef& op = find_op("identity");
  emit(id, op, NoAttrs{}, {from}, {to});
}

// What has ended when all that the node depends on has.
LaneClock Lowering::depends_on(NodeId id) const {
  LaneClock clock(lanes_, 0);
  for (NodeId other : before_[static_cast<std::size_t>(id)]) merge(clock, done_[static_cast<std::size_t>(other)]);
  return clock;
}

// What has ended when the node's next instruction may start. Collectives start after all compute that stands before
// them: the schedule has put them where their operands are made, and memory is freed the sooner.
LaneClock Lowering::ready(NodeId id) const {
  const Lane lane = graph_.node(id).lane;
  LaneClock clock = done_[static_cast<std::size_t>(id)];
  const auto all_of = [&](std::size_t other) {
    if (!ended_[other].empty()) merge(clock, ended_[other].back());
  };
  all_of(static_cast<std::size_t>(lane));
  for (std::size_t other = 0; lane == Lane::comm && other < lanes_; ++other) all_of(other);
  return clock;
}

// Waits for what is not known to have ended: neither by the instruction before, nor by what another wait brings.
void Lowering::wait(Instruction& instruction, const LaneClock& start) const {
  const auto own = static_cast<std::size_t>(instruction.lane);
  const auto known = [&](std::size_t lane, int count) {
    if (!ended_[own].empty() && ended_[own].back()[lane] >= count) return true;
    for (std::size_t other = 0; other < lanes_; ++other) {
      if (other == lane || other == own || start[other] == 0) continue;
      const LaneClock& brought = ended_[other][static_cast<std::size_t>(start[other]) - 1];
      if (brought[lane] >= count) return true;
    }
    return false;
  };
  for (std::size_t lane = 0; lane < lanes_; ++lane) {
    if (lane == own || start[lane] == 0 || known(lane, start[lane])) continue;
    instruction.waits.push_back({static_cast<Lane>(lane), start[lane]});
  }
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

void Lowering::emit(NodeId id, const OpDef& op, const Attrs& attrs, std::vector<Location> in,
                    const std::vector<Location>& out) {
  std::vector<ArgDesc> in_descs, out_descs;
  for (const auto& location : in) in_descs.push_back(location.desc);
  for (const auto& location : out) out_descs.push_back(location.desc);
  Planned planned;
  if (is_control(op)) {
    planned = plan_control(graph_, graph_.node(id), exe_->device_, options_);
  } else if (options_.own_kernels) {
    planned = options_.own_kernels({op, attrs, in_descs, out_descs, options_.threads});
  }
  if (!planned.plan) {
    planned = plan_kernel(op, exe_->device_.kind, attrs, in_descs, out_descs,
                          {.threads = options_.threads, .reference_only = options_.reference_only});
  }
  if (planned.densify.empty()) planned.densify = strided(in_descs);
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (!planned.densify[i]) continue;
    const TensorType type{in[i].desc.dtype, in[i].desc.shape};
    const Location target{new_memory({}, bytes_of(type), id), 0, dense(type)};
    memory_.back().apart = outlasting_[static_cast<std::size_t>(id)];
    emit_copy(id, in[i], target);
    in[i] = target;
  }
  LaneClock start = ready(id);
  for (const auto& location : in) merge(start, memory_[static_cast<std::size_t>(location.memory)].written);
  for (const auto& location : out) merge(start, memory_[static_cast<std::size_t>(location.memory)].touched);
  Instruction instruction;
  instruction.op = op.name;
  instruction.kernel = planned.kernel;
  instruction.node = id;
  instruction.lane = graph_.node(id).lane;
  instruction.plan = std::move(planned.plan);
  for (const auto& location : in) instruction.in.push_back(place(location));
  for (const auto& location : out) instruction.out.push_back(place(location));
  for (const auto& location : in) instruction.in_desc.push_back(location.desc);
  for (const auto& location : out) instruction.out_desc.push_back(location.desc);
  wait(instruction, start);
  const auto lane = static_cast<std::size_t>(instruction.lane);
  LaneClock end = start;
  end[lane] = ++exe_->lane_size_[lane];
  for (const auto& location : in) touch(location.memory, false, start, end);
  for (const auto& location : out) touch(location.memory, true, start, end);
  merge(done_[static_cast<std::size_t>(id)], end);
  starts_.push_back(std::move(start));
  ended_[lane].push_back(std::move(end));
  exe_->scratch_bytes_ = std::max(exe_->scratch_bytes_, instruction.plan->scratch_bytes);
  exe_->instructions_.push_back(std::move(instruction));
}

Place Lowering::place(const Location& location) const {
  Place place = memory_[static_cast<std::size_t>(location.memory)].place;
  if (place.kind == Place::Kind::arena) place.index = location.memory;
  place.offset = location.offset;
  place.bytes = spanned_bytes(location.desc);
  return place;
}

// When each piece of the arena is in use, scratch not counted.
std::vector<BufferUse> Lowering::value_uses(std::vector<int>& index_of) const {
  std::vector<BufferUse> uses;
  const int last = static_cast<int>(exe_->instructions_.size());
  index_of.assign(memory_.size(), -1);
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    const Memory& memory = memory_[i];
    if (!memory.is_buffer()) continue;
    index_of[i] = static_cast<int>(uses.size());
    if (!options_.reuse_memory || memory.apart)
      uses.push_back({memory.bytes, 0, last, LaneClock(lanes_, 0), exe_->lane_size_});
    else
      uses.push_back({memory.bytes, std::max(memory.first, 0), memory.last, memory.born, memory.touched});
  }
  return uses;
}

// Scratch of every instruction, or one piece for all instructions of a lane.
std::vector<BufferUse> Lowering::scratch_uses(bool shared) const {
  const auto& instructions = exe_->instructions_;
  const BufferUse always{0, 0, static_cast<int>(instructions.size()), LaneClock(lanes_, 0), exe_->lane_size_};
  std::vector<BufferUse> uses(shared ? lanes_ : instructions.size(), always);
  for (std::size_t i = 0; i < instructions.size(); ++i) {
    const auto lane = static_cast<std::size_t>(instructions[i].lane);
    const auto step = static_cast<int>(i);
    BufferUse& use = uses[shared ? lane : i];
    use.bytes = std::max(use.bytes, instructions[i].plan->scratch_bytes);
    const bool outlasts = outlasting_[static_cast<std::size_t>(instructions[i].node)];
    if (!shared && !outlasts)
      use = {use.bytes, step, step, starts_[i], ended_[lane][static_cast<std::size_t>(starts_[i][lane])]};
  }
  return uses;
}

// Scratch at one address stays in the cache from kernel to kernel. It is spread over the arena, each piece living as
// long as its instruction, where that saves memory worth the name.
void Lowering::place_buffers() {
  constexpr std::size_t kWorth = 32;
  std::vector<int> index_of;
  std::vector<BufferUse> values = value_uses(index_of);
  for (const auto& use : values) exe_->unshared_bytes_ += use.bytes;
  const auto with = [&](const std::vector<BufferUse>& scratch) {
    std::vector<BufferUse> all = values;
    all.insert(all.end(), scratch.begin(), scratch.end());
    if (lanes_ == 1) {
      for (auto& use : all) use.born.clear();
    }
    return all;
  };
  std::vector<BufferUse> uses = with(scratch_uses(true));
  MemoryPlan plan = plan_memory(uses);
  bool shared = true;
  if (options_.reuse_memory && exe_->scratch_bytes_ > plan.arena_bytes / kWorth) {
    std::vector<BufferUse> spread = with(scratch_uses(false));
    MemoryPlan other = plan_memory(spread);
    if (other.arena_bytes + plan.arena_bytes / kWorth <= plan.arena_bytes) {
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
  const auto settle = [&](Place& place) {
    if (place.kind != Place::Kind::arena) return;
    const int use = index_of[static_cast<std::size_t>(place.index)];
    place.offset += static_cast<std::int64_t>(plan.offsets[static_cast<std::size_t>(use)]);
  };
  for (std::size_t i = 0; i < exe_->instructions_.size(); ++i) {
    Instruction& instruction = exe_->instructions_[i];
    for (auto& place : instruction.in) settle(place);
    for (auto& place : instruction.out) settle(place);
    const std::size_t scratch = values + (shared ? static_cast<std::size_t>(instruction.lane) : i);
    instruction.scratch.offset = static_cast<std::int64_t>(plan.offsets[scratch]);
  }
}

std::shared_ptr<const Executable> Executable::build(Graph graph, const ExecutableOptions& options) {
  return Lowering(std::move(graph), options).run();
}

}  // namespace starling
