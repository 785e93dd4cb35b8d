#include "starling/runtime/compile.h"

#include <algorithm>
#include <chrono>

#include "starling/base/clock.h"
#include "starling/base/error.h"
#include "starling/base/parallel.h"
#include "starling/kernels/eager.h"
#include "starling/ops/api/random.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/random_key.h"
#include "starling/runtime/execution/executable.h"
#include "starling/runtime/user_options.h"

namespace starling {
namespace {

constexpr std::int64_t kOwnRows = -1;  // arguments hold the whole batch

// Argument with the rows of the global batch, without memory: type and device for tracing.
Tensor with_rows(const Tensor& argument, std::int64_t rows) {
  Ref<TensorImpl> impl = new TensorImpl;
  impl->dtype = argument.dtype();
  impl->shape = argument.shape();
  if (impl->shape.rank() > 0) impl->shape[0] = rows;
  impl->strides = contiguous_strides(impl->shape);
  impl->device = argument.device();
  return Tensor(std::move(impl));
}

// A strategy may have given variables the slots of earlier programs, in place of those that the trace has made.
void take_slots(std::span<const Tensor> variables, std::vector<Tensor>& slots, graph::Graph& graph) {
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const Tensor now = variables[i].grad();
    if (same(now, slots[i])) continue;
    for (auto& variable : graph.variables) {
      if (same(variable.tensor, slots[i])) variable.tensor = now;
    }
    slots[i] = now;
  }
}

// Key of this thread's generator, if a program on one device reads or advances it. Of programs whose steps were given
// devices by hand it stays where it is.
std::shared_ptr<op::RandomKey> key_of(const graph::Graph& graph) {
  const auto& key = default_generator().shared_key();
  const bool used = std::any_of(graph.variables.begin(), graph.variables.end(),
                                [&](const auto& variable) { return same(variable.tensor, key->tensor()); });
  bool placed = runtime::program_device(graph).kind == DeviceKind::null;
  for (const auto& node : graph.nodes()) placed = placed || node.pinned;
  return used && !placed ? key : nullptr;
}

}  // namespace

struct CompiledFunction::Entry {
  std::vector<TensorType> types;
  std::vector<Device> devices;
  std::int64_t rows = kOwnRows;  // rows of the global batch, if the arguments hold one rank's
  int threads = 0;
  graph::Trace traced;
  std::unique_ptr<runtime::Program> program;
  CompileTimes times;
  std::vector<Tensor> slots;    // gradient slots that the program adds to, parallel to traced.accumulating
  std::vector<Tensor> used;     // gradient slots that it consumes, parallel to traced.consuming
  std::vector<Tensor> inputs;   // inputs of the current call
  std::vector<Tensor> outputs;  // handed out; reused once the caller has released them
  std::vector<TensorType> output_types;
  std::vector<std::pair<Tensor, bool>>
      filled;  // variables, and whether their slots held gradients at the time of tracing

  // True while the guards of the trace still hold.
  bool holds() const {
    if (traced.grad_enabled != grad_enabled()) return false;
    for (const auto& [flag, value] : traced.guards) {
      if (*flag != value) return false;
    }
    for (const auto& [variable, was_filled] : filled) {
      if (variable.grad().defined() != was_filled) return false;
    }
    for (std::size_t i = 0; i < variable_devices.size(); ++i) {
      const graph::GraphVariable& variable = traced.graph.variables[i];
      if (key && same(variable.tensor, key->tensor())) continue;  // every call brings it to the program's device
      const TensorImpl& now = *variable.tensor.impl();
      if (now.dtype != variable.type.dtype || !(now.shape == variable.type.shape) || now.device != variable_devices[i])
        return false;
    }
    return true;
  }
  Device device;
  std::shared_ptr<op::RandomKey> key;    // of the generator that the program reads or advances
  std::vector<Device> variable_devices;  // devices of the variables at the time of tracing
};

struct CompiledFunction::State {
  graph::TraceFn f;
  CompileOptions options;
  std::shared_ptr<runtime::Strategy> strategy;
  std::vector<std::unique_ptr<Entry>> entries;  // most recently used first
  Profiler* profiler = nullptr;

  const CommWorld& world() const { return options.world.comm ? options.world : current_world(); }

  const Entry& last() const {
    check(!entries.empty(), "[compile] expected a function that has been called, got one that has not");
    return *entries.front();
  }
};

CompiledFunction::CompiledFunction(graph::TraceFn f, CompileOptions options) : state_(std::make_unique<State>()) {
  check(options.cache > 0, "[compile] expected a cache of at least one program, got {}", options.cache);
  state_->f = std::move(f);
  state_->strategy = options.strategy ? options.strategy : std::make_shared<runtime::SingleStrategy>();
  state_->options = std::move(options);
}

CompiledFunction::~CompiledFunction() = default;
CompiledFunction::CompiledFunction(CompiledFunction&&) noexcept = default;
CompiledFunction& CompiledFunction::operator=(CompiledFunction&&) noexcept = default;

CompiledFunction::Entry& CompiledFunction::entry_for(std::span<const Tensor> arguments, std::int64_t rows) {
  auto& entries = state_->entries;
  const int threads = state_->options.threads > 0 ? state_->options.threads : num_threads();
  const auto fits = [&](const std::unique_ptr<Entry>& entry) {
    if (entry->types.size() != arguments.size() || entry->rows != rows || entry->threads != threads || !entry->holds())
      return false;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const Tensor& a = arguments[i];
      if (a.dtype() != entry->types[i].dtype || !(a.shape() == entry->types[i].shape) ||
          a.device() != entry->devices[i])
        return false;
    }
    return true;
  };
  const auto found = std::find_if(entries.begin(), entries.end(), fits);
  if (found != entries.end()) {
    if (found != entries.begin()) std::rotate(entries.begin(), found, found + 1);
    return *entries.front();
  }
  auto entry = std::make_unique<Entry>();
  for (const auto& a : arguments) {
    entry->types.push_back(a.type());
    entry->devices.push_back(a.device());
  }
  entry->rows = rows;
  entry->threads = threads;
  const auto start = SteadyClock::now();
  if (rows == kOwnRows) {
    entry->traced = graph::trace(state_->f, arguments);
  } else {
    std::vector<Tensor> whole;
    for (const auto& a : arguments) whole.push_back(with_rows(a, rows));
    entry->traced = graph::trace(state_->f, whole);
  }
  entry->times.trace_ms = milliseconds_since(start);
  for (const auto& variable : entry->traced.accumulating) entry->slots.push_back(variable.grad());
  for (const auto& variable : entry->traced.consuming) entry->used.push_back(variable.grad());
  entry->device = runtime::program_device(entry->traced.graph);
  entry->key = key_of(entry->traced.graph);
  if (entry->key) entry->key->to(entry->device);
  for (const auto& variable : entry->traced.graph.variables)
    entry->variable_devices.push_back(variable.tensor.device());
  const auto accumulates = [&](const Tensor& tensor) {
    const auto& list = entry->traced.accumulating;
    return std::any_of(list.begin(), list.end(), [&](const Tensor& other) { return same(tensor, other); });
  };
  for (const auto& variable : entry->traced.graph.variables) {
    if (!variable.tensor.requires_grad() || accumulates(variable.tensor)) continue;
    entry->filled.emplace_back(variable.tensor, variable.tensor.grad().defined());
  }
  const auto built = SteadyClock::now();
  entry->program = state_->strategy->build(entry->traced.graph, Container::of(entry->traced.graph),
                                           {.program = runtime::program_options(state_->options, threads),
                                            .arguments = arguments.size(),
                                            .world = state_->options.world});
  entry->times.build_ms = milliseconds_since(built);
  take_slots(entry->traced.accumulating, entry->slots, entry->traced.graph);
  take_slots(entry->traced.consuming, entry->used, entry->traced.graph);
  entry->program->set_profiler(state_->profiler);
  entry->output_types = entry->program->output_types();
  if (entry->output_types.empty()) {
    for (graph::ValueId out : entry->traced.graph.outputs)
      entry->output_types.push_back(entry->traced.graph.value(out).type);
  }
  entry->outputs.resize(entry->output_types.size());
  if (entries.size() == state_->options.cache) entries.pop_back();
  entries.insert(entries.begin(), std::move(entry));
  return *entries.front();
}

namespace {

// A gradient slot that eager code has cleared restarts from zero.
void reattach(const Tensor& variable, const Tensor& slot, runtime::Strategy& strategy) {
  const Tensor now = variable.grad();
  if (now.defined() && same(now, slot)) return;
  if (!slot.impl()->storage && !now.defined()) {
    strategy.clear(slot);
    return variable.set_grad(slot);
  }
  copy_into(slot, now.defined() ? kernels::densify(now) : zeros(slot.shape(), slot.dtype(), slot.device()));
  variable.set_grad(slot);
}

}  // namespace

namespace {

std::int64_t checked(GlobalRows all) {
  check(all.rows >= 0, "[compile] expected a number of rows, got {}", all.rows);
  return all.rows;
}

}  // namespace

void CompiledFunction::prepare(std::span<const Tensor> arguments) {
  const WorldScope world(state_->world());
  entry_for(arguments, kOwnRows);
}
void CompiledFunction::prepare(std::span<const Tensor> arguments, GlobalRows all) {
  const WorldScope world(state_->world());
  entry_for(arguments, checked(all));
}
TensorList CompiledFunction::call(std::span<const Tensor> arguments) { return run(arguments, kOwnRows); }
TensorList CompiledFunction::call(std::span<const Tensor> arguments, GlobalRows all) {
  return run(arguments, checked(all));
}

TensorList CompiledFunction::run(std::span<const Tensor> arguments, std::int64_t rows) {
  for (const auto& a : arguments) {
    check(a.defined() && !a.traced(), "[compile] expected tensors with data as arguments, got {}",
          a.defined() ? "a traced value (compiled functions do not nest)" : "an empty handle");
    if (a.impl()->row_sparse) [[unlikely]]
      a.raw();  // throws on traced tensors: programs read memory
  }
  const WorldScope world(state_->world());
  Entry& entry = entry_for(arguments, rows);
  entry.inputs.clear();
  for (const auto& a : arguments) {
    entry.inputs.push_back(a.contiguous() ? a : kernels::densify(a));
    for (const auto& variable : entry.traced.graph.variables)
      entry.inputs.back() = apart_from(variable.tensor, entry.inputs.back());
  }
  for (const auto& hidden : entry.traced.hidden_inputs) {
    entry.inputs.push_back(kernels::densify(hidden));
    if (!entry.inputs.back().impl()->storage) hidden.raw();  // throws: every rank stores a piece
  }
  for (std::size_t i = 0; i < entry.slots.size(); ++i)
    reattach(entry.traced.accumulating[i], entry.slots[i], *state_->strategy);
  for (std::size_t i = 0; i < entry.used.size(); ++i)
    reattach(entry.traced.consuming[i], entry.used[i], *state_->strategy);
  for (std::size_t i = 0; i < entry.outputs.size(); ++i) {
    Tensor& out = entry.outputs[i];
    if (out.defined() && out.impl()->use_count() == 1 && out.impl()->storage->use_count() == 1) {
      out.impl()->extra.reset();
      continue;
    }
    const TensorType& type = entry.output_types[i];
    out = empty(type.shape, type.dtype, entry.device);
  }
  if (entry.key) entry.key->to(entry.device);
  try {
    entry.program->run(entry.inputs, entry.outputs);
  } catch (...) {
    // A program that failed is dropped and rebuilt at the next call: a broken group of ranks stays broken.
    state_->entries.erase(state_->entries.begin());
    throw;
  }
  for (const auto& variable : entry.traced.consuming) variable.set_grad(Tensor());
  entry.inputs.clear();
  return TensorList(std::span<const Tensor>(entry.outputs));
}

const graph::Graph& CompiledFunction::traced_graph() const { return state_->last().traced.graph; }
const graph::Graph& CompiledFunction::graph() const { return state_->last().program->graph(); }
std::string CompiledFunction::explain() const {
  const Entry& entry = state_->last();
  return entry.times.print() + entry.program->explain();
}
CompileTimes CompiledFunction::compile_times() const {
  CompileTimes times = state_->last().times;
  times.passes = state_->last().program->reports();
  return times;
}
std::string CompileTimes::print() const {
  const std::string text = fmt::format("compiled in {:.1f} ms: trace {:.1f}, passes, lowering and memory {:.1f}\n",
                                       trace_ms + build_ms, trace_ms, build_ms);
  return passes.empty() ? text : text + runtime::describe(passes);
}
std::size_t CompiledFunction::memory_bytes() const { return state_->last().program->memory_bytes(); }
std::size_t CompiledFunction::programs() const { return state_->entries.size(); }

void CompiledFunction::set_profiler(Profiler* profiler) {
  state_->profiler = profiler;
  for (auto& entry : state_->entries) entry->program->set_profiler(profiler);
}

}  // namespace starling
