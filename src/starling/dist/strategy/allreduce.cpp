#include "starling/dist/strategy/allreduce.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>

#include "starling/base/error.h"
#include "starling/dist/comm/gpu/device_comms.h"
#include "starling/dist/health/replica_hash.h"
#include "starling/dist/mesh/layout_mistakes.h"
#include "starling/dist/strategy/programs/rank_program.h"
#include "starling/dist/strategy/programs/sharded_program.h"
#include "starling/dist/strategy/traffic_counters.h"
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

// Program that is built anew where the forms of its gradients have changed, by all ranks before the same step.
class RebuiltProgram final : public runtime::Program {
 public:
  using Make = std::function<std::unique_ptr<runtime::Program>()>;
  RebuiltProgram(const dist::CodedGradients& coded, Make make)
      : coded_(coded), make_(std::move(make)), version_(coded.version()), program_(make_()) {}

  void run(std::span<const Tensor> inputs, std::span<const Tensor> outputs) override {
    if (std::exchange(version_, coded_.version()) != coded_.version()) {
      program_.reset();
      program_ = make_();
      program_->set_profiler(profiler_);
    }
    program_->run(inputs, outputs);
  }
  const graph::Graph& graph() const override { return program_->graph(); }
  std::string explain() const override { return program_->explain(); }
  void set_profiler(Profiler* profiler) override { program_->set_profiler(profiler_ = profiler); }
  std::size_t memory_bytes() const override { return program_->memory_bytes(); }
  std::vector<graph::PassReport> reports() const override { return program_->reports(); }
  std::vector<TensorType> output_types() const override { return program_->output_types(); }

 private:
  const dist::CodedGradients& coded_;
  Make make_;
  std::int64_t version_;
  std::unique_ptr<runtime::Program> program_;
  Profiler* profiler_ = nullptr;
};

std::vector<NamedTensor> variables_of(const graph::Graph& graph, const Container& container) {
  const std::vector<Tensor> tensors = container.bind(graph);
  std::vector<NamedTensor> named;
  for (std::size_t i = 0; i < tensors.size(); ++i) named.push_back({graph.variables[i].name, tensors[i]});
  return named;
}

std::vector<std::string> names_of(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(tensor.name());
  return names;
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
          setting("mesh", &O::mesh,
                  "workers in a grid, {data: 2, model: 2}: rows of a batch along data, parameters along other axes"),
          setting("layout", &O::layout,
                  "how parameters lie along axes of the mesh: a preset, or patterns of their names with an axis and a "
                  "word, {\"*.fc1\": {model: columns}}"),
          setting("zero", &O::zero,
                  "state of which every worker stores a piece: 1 optimizer state, 2 also gradients added up over "
                  "batches, 3 also weights",
                  {.min = 0, .max = 3})};
}

void check_options(const AllReduceOptions& options, const dist::StatePlan& plan) {
  const std::int64_t zero = plan.asked_zero(), ranks = plan.data_ranks();
  const bool coded = !options.codec.none();
  check(zero >= 0 && zero <= 3, "[allreduce] expected zero of 0 to 3, got {}", zero);
  check(zero == 0 || !coded,
        "[allreduce] expected zero: 0 with a codec, which sends whole gradients to all workers, got {}", zero);
  check(!plan.has_rules_along(dist::kDataAxis) || (zero == 0 && !options.deterministic),
        "[allreduce] expected neither zero nor deterministic with a layout along the axis data, got one of them");
  check(!coded || (!plan.has_rules() && plan.mesh().axes().size() == 1),
        "[allreduce] expected no codec with a layout or axes beside data, where ranks hold the same rows, got {}",
        options.codec.label());
  check(!options.deterministic || options.shards >= ranks,
        "[allreduce] expected at least as many logical shards as workers, got {} for {}", options.shards, ranks);
  check(
      !options.deterministic || !coded,
      "[allreduce] expected no codec in deterministic mode, as what it rounds depends on the number of workers, got {}",
      options.codec.label());
}

namespace {

// A mesh of the data axis alone needs no groups.
std::unique_ptr<Mesh> made_mesh(const MeshShape& shape, Comm& comm) {
  return shape.axes().size() == 1 ? nullptr : std::make_unique<Mesh>(comm, shape.axes());
}

}  // namespace

AllReduce::AllReduce(std::shared_ptr<Comm> given, AllReduceOptions options)
    : dist::RankStrategy(std::move(given)),
      options_(std::move(options)),
      plan_(options_.mesh, options_.layout, options_.zero, world()),
      mesh_(made_mesh(plan_.mesh(), comm())),
      coded_(options_.codec, data().rank(), data().size()),
      sharded_(plan_.mesh(), rank()) {
  check_options(options_, plan_);
}

std::string AllReduce::name() const {
  const std::string codec = coded_.none() ? "" : ", " + options_.codec.label();
  const std::string zero = plan_.asked_zero() > 0 ? fmt::format(", zero {}", plan_.asked_zero()) : "";
  const std::string mesh = mesh_ ? ", " + mesh_->shape().describe() : "";
  return fmt::format("allreduce({} ranks{}{}{}{})", world(), mesh, options_.deterministic ? ", deterministic" : "",
                     codec, zero);
}

std::unique_ptr<runtime::Program> AllReduce::build(const graph::Graph& global, const Container& container,
                                                   const runtime::BuildOptions& options) {
  return build(global, container, options, false);
}

std::unique_ptr<runtime::Program> AllReduce::build_part(const graph::Graph& global, const Container& container,
                                                        const runtime::BuildOptions& options) {
  return build(global, container, options, keeps_local_gradients());
}

graph::ProgramOptions AllReduce::program_options(graph::ProgramOptions program) const {
  program.threads = options_.deterministic ? 1 : dist::threads_each(options_.threads, 1, program);
  program.overlap = program.overlap && options_.overlap && !cores_are_taken(comm(), program.threads);
  program.bucket_bytes = static_cast<std::size_t>(options_.bucket_mb * (1 << 20));
  // Buckets follow the sizes of gradients, on which ranks must agree; uneven pieces have others on other ranks.
  if (sharded_.uneven()) program.bucket_bytes = 0;
  program.first_bucket_bytes = std::min(program.first_bucket_bytes, program.bucket_bytes);
  // Shared updates exchange rows of weights: fast through memory, but over a network gradients are sent earlier and
  // overlap better. State in pieces and codecs have ways of their own.
  if (!data().capabilities().direct_memory || plan_.zero() > 0 || !coded_.none() || plan_.has_rules())
    program.disable.insert("shared_updates");
  return program;
}

std::unique_ptr<runtime::Program> AllReduce::build(const graph::Graph& traced, const Container& given,
                                                   const runtime::BuildOptions& options, bool local_gradients) {
  if (!coded_.chooses_again()) return build_once(traced, given, options, local_gradients);
  return std::make_unique<RebuiltProgram>(coded_,
                                          [=, this] { return build_once(traced, given, options, local_gradients); });
}

std::unique_ptr<runtime::Program> AllReduce::build_once(const graph::Graph& traced, const Container& given,
                                                        const runtime::BuildOptions& options, bool local_gradients) {
  graph::Graph global = traced;
  Container container = given;
  slots_.share(global, container, sharded_,
               [&](const Tensor& variable) { return plan_.cuts(variable, dist::StatePlan::kGradients); });
  const std::vector<NamedTensor> whole = dist::with_memory(variables_of(global, container));
  const auto cuts_here = [&](const Tensor& tensor) {
    return sharded_.piece(tensor) != nullptr ? sharded_.cuts(tensor) : dist::AxisCuts();
  };
  if (mesh_) global = dist::along_model_axes(global, plan_, cuts_here, rank());
  runtime::BuildOptions build = options;
  build.program = program_options(options.program);
  const dist::RankProgramOptions rank{.comm = &data(),
                                      .world = mesh_ ? mesh_->world() : options.world,
                                      .shards = shards(),
                                      .shard_order = options_.shard_order,
                                      .rounds = plan_.rounds(),
                                      .local_gradients = local_gradients};
  if (!coded_.none()) global = coded_.rewrite(global, Symbol(dist::split_group(rank)));
  Container local = dist::with_pieces(container, sharded_);
  if (!coded_.none()) coded_.bind(local);
  auto made = std::make_unique<AllReduceProgram>(shared_comm(), dist::with_pieces(global, cuts_here, dist::kDataAxis),
                                                 local, build, rank);
  if (!begun_ && !local_gradients) made->expect_equal(whole);
  return made;
}

bool AllReduce::make_piece(const Tensor& parameter, dist::ShardedState::FillPiece fill) {
  const dist::AxisCuts cuts = plan_.cuts(parameter, dist::StatePlan::kWeights);
  if (!cuts.empty()) sharded_.make(parameter, cuts, fill);
  return !cuts.empty();
}

// State that has memory stays whole until begin() has given all ranks that of rank 0.
void AllReduce::prepare(const dist::TrainedState& state) {
  for (const auto& [name, tensor] : state.optimizer) {
    if (!tensor.impl()->storage) sharded_.cut(tensor, plan_.cuts(tensor, dist::StatePlan::kState));
  }
}

void AllReduce::begin(const dist::TrainedState& state) {
  begun_ = true;
  dist::expect_matches(options_.layout, names_of(state.weights));
  dist::expect_one_layout(options_.layout, plan_.mesh(), state.weights);
  prepare(state);
  state_ = state;
  dist::TrainedState here = state;
  for (auto* tensors : {&here.weights, &here.buffers, &here.optimizer}) *tensors = dist::with_memory(*tensors);
  std::vector<NamedTensor> whole, in_pieces;
  const auto sort = [&](const std::vector<NamedTensor>& tensors, std::int64_t level) {
    for (const NamedTensor& one : tensors) (plan_.cuts(one.tensor, level).empty() ? whole : in_pieces).push_back(one);
  };
  sort(here.weights, dist::StatePlan::kWeights);
  const std::size_t weights = in_pieces.size();
  sort(here.optimizer, dist::StatePlan::kState);
  if (const auto arena = data().arena()) {
    for (const auto& [name, tensor] : whole) move_to(arena, tensor);
  }
  coded_.begin(state.weights, data());
  dist::RankStrategy::begin(here);
  for (std::size_t i = 0; i < in_pieces.size(); ++i)
    sharded_.cut(in_pieces[i].tensor,
                 plan_.cuts(in_pieces[i].tensor, i < weights ? dist::StatePlan::kWeights : dist::StatePlan::kState));
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
  double waited = 0;
  for (int op = 0; coded_.chooses_again() && op < kCommOpCount; ++op)
    waited += static_cast<double>(exchanged(static_cast<CommOp>(op)).wait_ns) / 1e9;
  coded_.after_step(waited);
}

dist::OpCounters AllReduce::exchanged(CommOp op) const {
  dist::OpCounters all = dist::exchanged_in(comm(), op);
  if (!mesh_) return all;
  for (const MeshAxis& axis : mesh_->shape().axes())
    all = dist::operator+(all, dist::exchanged_in(mesh_->group(axis.name), op));
  return all;
}

std::vector<dist::LawCounter> AllReduce::counters() const {
  std::uint64_t calls = 0, bytes = 0;
  for (const CommOp op : {CommOp::all_reduce, CommOp::sum_shards, CommOp::reduce_scatter, CommOp::all_gather,
                          CommOp::all_to_all, CommOp::send}) {
    const dist::OpCounters one = exchanged(op);
    calls += one.calls;
    bytes += one.bytes_sent;
  }
  std::uint64_t staged = dist::staged_bytes(comm());
  for (const MeshAxis& axis : mesh_ ? mesh_->shape().axes() : std::vector<MeshAxis>())
    staged += dist::staged_bytes(mesh_->group(axis.name));
  const auto stored = [&](const std::vector<NamedTensor>& tensors) {
    return static_cast<double>(dist::stored_bytes(tensors, sharded_));
  };
  std::vector<dist::LawCounter> all{
      {"steps", static_cast<double>(steps_)},        {"samples", samples_},
      {"reductions", static_cast<double>(calls)},    {"reduced_bytes_sent", static_cast<double>(bytes)},
      {"staged_bytes", static_cast<double>(staged)}, {"sent_by_factors", static_cast<double>(coded_.by_factors())},
      {"weight_bytes", stored(state_.weights)},      {"gradient_bytes", stored(slots_.tensors())},
      {"optimizer_bytes", stored(state_.optimizer)}};
  dist::add_traffic(coded_.traffic(), all);
  return all;
}

}  // namespace starling
