#include "starling/train/job/job_layout.h"

#include <algorithm>
#include <map>

#include "starling/base/error.h"
#include "starling/dist/mesh/layout_mistakes.h"
#include "starling/dist/strategy/allreduce.h"
#include "starling/dist/strategy/state/sharded_state.h"
#include "starling/optim/deferred_state.h"
#include "starling/train/job/job_error.h"
#include "starling/train/job/job_graph.h"

namespace starling::train {
namespace {

// Options of the strategy with meshes, as the job gives them.
std::optional<AllReduceOptions> allreduce_of(const Job& job) {
  const nlohmann::json options = job.distribute.strategy.json();
  if (!options.contains("mesh")) return std::nullopt;
  return read_settings<AllReduceOptions>(ConfigNode::parse(options.dump(), "distribute"));
}

dist::StatePlan plan_of(const AllReduceOptions& options, const Job& job) {
  return {options.mesh, options.layout, options.zero, static_cast<int>(job.distribute.workers)};
}

// Bytes of a rank: of those ranks, the one with the most.
struct StateBytes {
  std::int64_t weights = 0, gradients = 0, optimizer = 0;
  std::int64_t all() const { return weights + gradients + optimizer; }
};

std::int64_t bytes_of_piece(const dist::StatePlan& plan, const Tensor& tensor, std::int64_t level) {
  const dist::AxisCuts cuts = plan.cuts(tensor, level);
  std::int64_t most = 0;
  for (int rank = 0; rank < plan.mesh().ranks(); ++rank)
    most = std::max(most, dist::ShardedState(plan.mesh(), rank).region(tensor.shape(), cuts, rank).shape().numel());
  return most * static_cast<std::int64_t>(size_of(tensor.dtype()));
}

StateBytes state_bytes(const dist::StatePlan& plan, const PreparedJob& prepared) {
  const optim::DeferredState deferred([](const Tensor&) { return true; });
  const auto optimizer = make_optimizer(prepared.job, *prepared.net);
  StateBytes bytes;
  for (const auto& parameter : prepared.net->parameters()) {
    bytes.weights += bytes_of_piece(plan, parameter, dist::StatePlan::kWeights);
    bytes.gradients += bytes_of_piece(plan, parameter, dist::StatePlan::kGradients);
  }
  for (const auto& [name, tensor] : optimizer->state())
    bytes.optimizer += bytes_of_piece(plan, tensor, dist::StatePlan::kState);
  return bytes;
}

double megabytes(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

// Levels of `zero` that a job may ask for beyond its own, with what state then takes in this process.
std::string told_levels(const PreparedJob& prepared, const AllReduceOptions& options, std::int64_t ranks_here) {
  const auto ranks = static_cast<int>(prepared.job.distribute.workers);
  if (ranks == 1) return "; with more workers distribute.zero gives each a piece of it";
  if (!options.codec.none()) return "";
  std::string told, fitting;
  const std::int64_t last = prepared.job.train.average ? 2 : 3;
  for (std::int64_t level = plan_of(options, prepared.job).zero() + 1; level <= last; ++level) {
    const std::int64_t bytes = ranks_here * state_bytes({options.mesh, options.layout, level, ranks}, prepared).all();
    told += fmt::format("{} zero: {} makes it {:.1f} MB", told.empty() ? ";" : ",", level, megabytes(bytes));
    if (megabytes(bytes) < static_cast<double>(prepared.job.train.memory_mb))
      fitting += fmt::format("{}zero: {}", fitting.empty() ? "" : ", ", level);
  }
  if (told.empty()) return "; more workers make it less";
  if (prepared.job.train.memory_mb == 0) return told;
  return told + fmt::format("; below the {} MB of train.memory_mb: {}", prepared.job.train.memory_mb,
                            fitting.empty() ? "none of them" : fitting);
}

}  // namespace

std::string told_state(const PreparedJob& prepared, std::int64_t ranks_here) {
  const auto options = allreduce_of(prepared.job).value_or(AllReduceOptions{});
  const StateBytes bytes = state_bytes(plan_of(options, prepared.job), prepared);
  const auto here = [&](std::int64_t one) { return megabytes(one * ranks_here); };
  std::string told = fmt::format(
      "state of the {} of this process is {:.1f} MB (weights {:.1f}, gradients {:.1f}, optimizer {:.1f}), beside "
      "activations, buckets and gathered layers",
      ranks_here == 1 ? "worker" : fmt::format("{} workers", ranks_here), here(bytes.all()), here(bytes.weights),
      here(bytes.gradients), here(bytes.optimizer));
  if (allreduce_of(prepared.job)) told += told_levels(prepared, options, ranks_here);
  return told;
}

std::optional<dist::StatePlan> state_plan(const Job& job) {
  const auto options = allreduce_of(job);
  if (!options) return std::nullopt;
  return plan_of(*options, job);
}

bool defers_weights(const Job& job) {
  const auto plan = state_plan(job);
  return plan && plan->splits_weights() && !job.pretrain.kind && parse_device(job.train.device) == kCpu;
}

void make_weights(const PreparedJob& prepared, nn::DeferredWeights& deferred, dist::RankStrategy& strategy) {
  for (const Tensor& parameter : prepared.net->parameters()) {
    if (!deferred.holds(parameter)) continue;
    strategy.make_piece(parameter, [&](const dist::Region& region, const Tensor& piece) {
      std::vector<nn::ElementRun> runs;
      if (piece.numel() > 0)
        region.each([&](const dist::Region::Run& run) { runs.push_back({run.whole, run.part, run.count}); });
      deferred.fill(parameter, runs, piece);
    });
  }
  deferred.make_rest();
}

void check_layout(const PreparedJob& prepared) {
  const auto options = allreduce_of(prepared.job);
  if (!options || (options->mesh.empty() && options->layout.empty())) return;
  const dist::StatePlan plan = plan_of(*options, prepared.job);
  check_options(*options, plan);
  if (!plan.has_rules()) return;
  check(!prepared.job.train.average, "[layout] expected no train.average with a layout, whose weights are pieces");
  std::vector<std::string> names;
  std::vector<NamedTensor> parameters;
  for (const auto& [name, parameter] : prepared.net->named_parameters()) {
    names.push_back(parameter.name());
    parameters.push_back({name, parameter});
  }
  dist::expect_matches(options->layout, names);
  dist::expect_one_layout(options->layout, plan.mesh(), parameters);
  const dist::PlannedStep step = dist::plan_step(trace_job(prepared, {.update = false}), plan, 0);
  dist::expect_whole_heads(step, plan);
  dist::expect_some_split(step, plan, options->layout, prepared.net->parameters());
}

// With its place in the job.
void expect_layout(const PreparedJob& prepared) {
  try {
    check_layout(prepared);
  } catch (const Refusal&) {
    throw;
  } catch (const Error& error) {
    refuse_job(prepared.job, "distribute.layout", error.what());
  }
}

namespace {

// Norms of pictures are sums over all rows of the batch before the program is cut along the other axes.
bool widens_norms(const PreparedJob& prepared, const dist::StatePlan& plan, const graph::Graph& step) {
  if (prepared.job.distribute.batch_norm == DistributeJob::BatchNorm::global) return false;
  const auto splits = [&](const MeshAxis& axis) {
    return plan.splits_pictures(axis.name) && axis.size < plan.mesh().ranks();
  };
  const auto& axes = plan.mesh().axes();
  if (std::none_of(axes.begin(), axes.end(), splits)) return false;
  const auto is_norm = [&](const graph::Node& node) {
    return graph::is_op(node, "batch_norm_train") && step.value(node.in[0]).type.shape.rank() >= 4;
  };
  return std::any_of(step.nodes().begin(), step.nodes().end(), is_norm);
}

// "12 ops take whole operands though pieces are there (8 conv2d, 4 max_pool2d)".
std::string told_fallbacks(const std::vector<dist::PlannedFallback>& fallbacks) {
  std::map<std::string, int> counts;
  for (const auto& one : fallbacks) ++counts[one.op];
  std::string ops;
  for (const auto& [op, count] : counts) ops += fmt::format("{}{} {}", ops.empty() ? "" : ", ", count, op);
  return fmt::format("{} {} whole operands though pieces are there ({})", fallbacks.size(),
                     fallbacks.size() == 1 ? "op takes" : "ops take", ops);
}

}  // namespace

std::string mesh_note(const PreparedJob& prepared) {
  const auto options = allreduce_of(prepared.job);
  if (!options || (options->mesh.empty() && options->layout.empty())) return "";
  const dist::StatePlan plan = plan_of(*options, prepared.job);
  std::string told = fmt::format("mesh {} of {} worker{}", plan.mesh().describe(), plan.mesh().ranks(),
                                 plan.mesh().ranks() == 1 ? "" : "s");
  if (options->layout.empty()) return told;
  std::int64_t all = 0, here = 0;
  for (const Tensor& parameter : prepared.net->parameters()) {
    all += parameter.numel() * static_cast<std::int64_t>(size_of(parameter.dtype()));
    here += bytes_of_piece(plan, parameter, dist::StatePlan::kWeights);
  }
  const std::string layout = options->layout.preset.empty() ? "by patterns" : options->layout.preset;
  return told + fmt::format(", layout {}: at most {:.2f} of {:.2f} MB of weights on each", layout, megabytes(here),
                            megabytes(all));
}

std::vector<std::string> layout_notes(const PreparedJob& prepared) {
  const auto plan = state_plan(prepared.job);
  if (!plan || !plan->has_rules()) return {};
  const optim::DeferredState no_memory([](const Tensor&) { return true; });
  const graph::Graph step = trace_job(prepared);
  std::vector<std::string> notes;
  if (widens_norms(prepared, *plan, step)) {
    notes.emplace_back(
        "distribute.layout splits pictures: their batch norms have statistics of all rows of the batch, as with "
        "distribute.batch_norm: global");
  }
  const dist::PlannedStep planned = plan_step(step, *plan, 0);
  if (!planned.fallbacks.empty()) {
    notes.push_back(fmt::format("with distribute.layout {}: starling inspect layout tells which",
                                told_fallbacks(planned.fallbacks)));
  }
  return notes;
}

}  // namespace starling::train
