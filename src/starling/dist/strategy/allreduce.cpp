#include "starling/dist/strategy/allreduce.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "starling/base/error.h"
#include "starling/dist/health/replica_hash.h"
#include "starling/dist/strategy/rank_program.h"
#include "starling/graph/dependencies.h"
#include "starling/tensor/allocator.h"
#include "starling/tensor/bytes.h"

namespace starling {

namespace {

class AllReduceProgram final : public runtime::Program {
 public:
  AllReduceProgram(std::shared_ptr<Comm> comm, const graph::Graph& global, const Container& container,
                   const runtime::BuildOptions& build, const dist::RankProgramOptions& options)
      : comm_(std::move(comm)), part_(global, container, build, options) {}

  // Before its first run the program looks whether ranks hold the same in these.
  void expect_equal(std::vector<NamedTensor> variables) {
    if (!graph::comm_groups(part_.graph()).empty()) unlooked_ = std::move(variables);
  }

  void run(std::span<const Tensor> inputs, std::span<const Tensor> outputs) override {
    part_.expect_rows(inputs);
    if (const auto variables = std::exchange(unlooked_, {}); !variables.empty())
      dist::expect_equal_start(*comm_, variables, "allreduce");
    part_.run(inputs, outputs);
  }
  const graph::Graph& graph() const override { return part_.graph(); }
  std::string explain() const override {
    return fmt::format(
               "all-reduce, rank {} of {}{}\n", comm_->rank(), comm_->size(),
               part_.shards() > 0 ? fmt::format(", deterministic with {} logical shards", part_.shards()) : "") +
           runtime::describe(part_.reports()) + part_.executable().explain();
  }
  std::vector<graph::PassReport> reports() const override { return part_.reports(); }
  std::vector<TensorType> output_types() const override { return part_.output_types(); }
  void set_profiler(Profiler* profiler) override { part_.instance().set_profiler(profiler); }
  std::size_t memory_bytes() const override { return part_.instance().memory_bytes(); }

 private:
  std::shared_ptr<Comm> comm_;
  dist::RankProgram part_;
  std::vector<NamedTensor> unlooked_;
};

std::vector<NamedTensor> variables_of(const graph::Graph& graph, const Container& container) {
  const std::vector<Tensor> tensors = container.bind(graph);
  std::vector<NamedTensor> named;
  for (std::size_t i = 0; i < tensors.size(); ++i) named.push_back({graph.variables[i].name, tensors[i]});
  return named;
}

// Moves the tensor's storage into the arena, so that collectives on it make no copies. Views of larger storage stay.
void move_to(const std::shared_ptr<Allocator>& arena, const Tensor& tensor) {
  TensorImpl& impl = *tensor.impl();
  const auto bytes = bytes_of(tensor);
  if (tensor.device().kind != DeviceKind::cpu || !tensor.contiguous() || bytes == 0 || bytes != impl.storage->bytes())
    return;
  void* place = arena->allocate(bytes);
  std::memcpy(place, tensor.raw(), bytes);
  const auto give_back = [arena, bytes](void* data) { arena->deallocate(data, bytes); };
  impl.storage = new Storage(kCpu, place, bytes, give_back, false);
  impl.offset = 0;
}

// Marks the reads of variables that are stored in pieces.
graph::Graph with_pieces(graph::Graph global, const dist::ShardedState& sharded) {
  for (graph::NodeId id = 0; id < global.size(); ++id) {
    const graph::Node& node = global.node(id);
    if (!graph::is_op(node, "variable")) continue;
    const Tensor& tensor = global.variables[static_cast<std::size_t>(graph::source_index(node))].tensor;
    if (tensor.defined() && sharded.piece(tensor) != nullptr) global.value(node.out[0]).layouts = {Layout::split(0)};
  }
  return global;
}

// The tensors that a program of this rank reads and writes.
Container with_pieces(const Container& container, const dist::ShardedState& sharded) {
  Container local;
  for (const auto& [name, tensor] : container.entries()) local.set(name, sharded.local(tensor));
  return local;
}

std::vector<NamedTensor> with_memory(const std::vector<NamedTensor>& tensors) {
  std::vector<NamedTensor> here;
  std::copy_if(tensors.begin(), tensors.end(), std::back_inserter(here),
               [](const NamedTensor& one) { return static_cast<bool>(one.tensor.impl()->storage); });
  return here;
}

double bytes_here(const std::vector<NamedTensor>& tensors, const dist::ShardedState& sharded) {
  double bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += static_cast<double>(bytes_of(sharded.local(tensor)));
  return bytes;
}

// True if compute threads occupy all cores: processes that share memory reduce with their own cores, so a comm lane
// beside them would only interrupt one.
bool cores_are_taken(const Comm& comm, int threads) {
  return comm.capabilities().direct_memory && comm.arena() &&
         static_cast<unsigned>(comm.size() * threads) >= std::thread::hardware_concurrency();
}

}  // namespace

Settings AllReduceOptions::settings() {
  using O = AllReduceOptions;
  return {setting("deterministic", &O::deterministic,
                  "the same bits for any number of workers: gradients of logical shards are added in shard order"),
          setting("shards", &O::shards, "logical shards of the deterministic mode", {.min = 1, .max = 4096}),
          setting("overlap", &O::overlap, "reduce gradients while the backward pass goes on"),
          setting("bucket_mb", &O::bucket_mb, "megabytes of small gradients that are reduced together",
                  {.min = 0, .max = 4096}),
          setting("codec", &O::codec,
                  "wire form of the gradients, by its name or with options, {name: top_k, share: 0.01}"),
          setting("zero", &O::zero,
                  "state of which every worker stores a piece: 1 optimizer state, 2 also gradients added up over "
                  "batches, 3 also weights",
                  {.min = 0, .max = 3})};
}

AllReduce::AllReduce(std::shared_ptr<Comm> comm, AllReduceOptions options)
    : dist::RankStrategy(std::move(comm)),
      options_(std::move(options)),
      coded_(options_.codec, rank(), world()),
      sharded_(rank(), world()) {
  check(options_.zero >= 0 && options_.zero <= 3, "[allreduce] expected zero of 0 to 3, got {}", options_.zero);
  check(options_.zero == 0 || !options_.deterministic,
        "[allreduce] expected zero: 0 with deterministic, whose shards are added whole, got {}", options_.zero);
  check(options_.zero == 0 || coded_.none(),
        "[allreduce] expected zero: 0 with a codec, which sends whole gradients to all workers, got {}", options_.zero);
  check(!options_.deterministic || options_.shards >= world(),
        "[allreduce] expected at least as many logical shards as workers, got {} for {}", options_.shards, world());
  check(
      !options_.deterministic || coded_.none(),
      "[allreduce] expected no codec in deterministic mode, as what it rounds depends on the number of workers, got {}",
      options_.codec.chosen.name);
}

std::string AllReduce::name() const {
  const std::string codec = coded_.none() ? "" : ", " + options_.codec.chosen.name;
  const std::string zero = options_.zero > 0 ? fmt::format(", zero {}", options_.zero) : "";
  return fmt::format("allreduce({} ranks{}{}{})", world(), options_.deterministic ? ", deterministic" : "", codec,
                     zero);
}

std::unique_ptr<runtime::Program> AllReduce::build(const graph::Graph& global, const Container& container,
                                                   const runtime::BuildOptions& options) {
  return build(global, container, options, false);
}

std::unique_ptr<runtime::Program> AllReduce::build_part(const graph::Graph& global, const Container& container,
                                                        const runtime::BuildOptions& options) {
  return build(global, container, options, keeps_local_gradients());
}

std::unique_ptr<runtime::Program> AllReduce::build(const graph::Graph& traced, const Container& given,
                                                   const runtime::BuildOptions& options, bool local_gradients) {
  graph::Graph global = traced;
  Container container = given;
  share_slots(global, container);
  runtime::BuildOptions build = options;
  graph::ProgramOptions& program = build.program;
  program.threads = options_.deterministic ? 1 : dist::threads_each(options_.threads, 1, program);
  program.overlap = program.overlap && options_.overlap && !cores_are_taken(comm(), program.threads);
  program.bucket_bytes = static_cast<std::size_t>(options_.bucket_mb * (1 << 20));
  program.first_bucket_bytes = std::min(program.first_bucket_bytes, program.bucket_bytes);
  // Shared updates exchange rows of weights: fast through memory, but over a network gradients are sent earlier and
  // overlap better.
  if (!comm().capabilities().direct_memory || zero() > 0) program.disable.insert("shared_updates");
  if (!coded_.none()) program.disable.insert("shared_updates");  // which would choose a way of its own for dense layers
  const dist::RankProgramOptions rank{.comm = &comm(),
                                      .world = options.world,
                                      .shards = shards(),
                                      .shard_order = options_.shard_order,
                                      .local_gradients = local_gradients};
  const graph::Graph coded = coded_.none() ? global : coded_.rewrite(global, Symbol(dist::split_group(rank)));
  Container local = with_pieces(container, sharded_);
  if (!coded_.none()) coded_.bind(local);
  auto made = std::make_unique<AllReduceProgram>(shared_comm(), with_pieces(coded, sharded_), local, build, rank);
  if (!begun_ && !local_gradients) made->expect_equal(with_memory(variables_of(global, container)));
  return made;
}

dist::GradientSlot* AllReduce::known_slot(const dist::GradientSlot& fresh) {
  const auto found = std::find_if(slots_.begin(), slots_.end(), [&](const dist::GradientSlot& one) {
    return same(one.variable, fresh.variable) && one.slot.type() == fresh.slot.type();
  });
  return found == slots_.end() ? nullptr : &*found;
}

// Gradients of several batches are added up in slots. A program that is traced between steps makes its own: in their
// place it gets those of earlier programs, so that a gradient is stored once, and an update finds what any program of
// the step has added.
void AllReduce::share_slots(graph::Graph& global, Container& container) {
  for (const dist::GradientSlot& fresh : dist::gradient_slots(global)) {
    const dist::GradientSlot* known = known_slot(fresh);
    if (known == nullptr) {
      slots_.push_back(fresh);
      if (zero() >= 2 && sharded_.fits(fresh.slot)) sharded_.cut(fresh.slot);
      continue;
    }
    if (same(known->slot, fresh.slot)) continue;
    if (sharded_.piece(known->slot) != nullptr)
      sharded_.put(known->slot, fresh.slot);
    else
      copy_into(known->slot, fresh.slot);
    dist::replace(fresh.slot, known->slot, global, container);
    fresh.variable.set_grad(known->slot);
  }
}

// State that has memory stays whole until begin() has given all ranks that of rank 0.
void AllReduce::prepare(const dist::TrainedState& state) {
  for (const auto& [name, tensor] : state.optimizer) {
    if (cuts_state(tensor) && !tensor.impl()->storage) sharded_.cut(tensor);
  }
}

void AllReduce::begin(const dist::TrainedState& state) {
  begun_ = true;
  prepare(state);
  state_ = state;
  dist::TrainedState here = state;
  for (auto* tensors : {&here.weights, &here.buffers, &here.optimizer}) *tensors = with_memory(*tensors);
  std::vector<NamedTensor> whole, in_pieces;
  const auto sort = [&](const std::vector<NamedTensor>& tensors, std::int64_t level) {
    for (const NamedTensor& one : tensors)
      (zero() >= level && sharded_.fits(one.tensor) ? in_pieces : whole).push_back(one);
  };
  sort(here.weights, 3);
  sort(here.optimizer, 1);
  if (const auto arena = comm().arena()) {
    for (const auto& [name, tensor] : whole) move_to(arena, tensor);
  }
  coded_.begin(state.weights, comm());
  dist::RankStrategy::begin(here);
  for (const auto& [name, tensor] : in_pieces) sharded_.cut(tensor);
}

void AllReduce::show() {
  for (const auto& [name, tensor] : state_.weights) sharded_.show(tensor, comm());
}

void AllReduce::unshow() {
  for (const auto& [name, tensor] : state_.weights) sharded_.hide(tensor);
}

void AllReduce::after_update(std::int64_t /*step*/, double weight) {
  ++steps_;
  samples_ += weight;
}

std::vector<dist::LawCounter> AllReduce::counters() const {
  std::uint64_t calls = 0, bytes = 0;
  for (const CommOp op :
       {CommOp::all_reduce, CommOp::sum_shards, CommOp::reduce_scatter, CommOp::all_gather, CommOp::send}) {
    const dist::OpCounters one = comm().journal().counters(op);
    calls += one.calls;
    bytes += one.bytes_sent;
  }
  std::vector<NamedTensor> slots;
  for (const auto& [variable, slot] : slots_) slots.push_back({slot.name(), slot});
  return {{"steps", static_cast<double>(steps_)},
          {"samples", samples_},
          {"reductions", static_cast<double>(calls)},
          {"reduced_bytes_sent", static_cast<double>(bytes)},
          {"sent_by_factors", static_cast<double>(coded_.by_factors())},
          {"weight_bytes", bytes_here(state_.weights, sharded_)},
          {"gradient_bytes", bytes_here(slots, sharded_)},
          {"optimizer_bytes", bytes_here(state_.optimizer, sharded_)}};
}

}  // namespace starling
