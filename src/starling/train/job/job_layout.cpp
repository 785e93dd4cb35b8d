#include "starling/train/job/job_layout.h"

#include "starling/base/error.h"
#include "starling/dist/mesh/layout_mistakes.h"
#include "starling/dist/strategy/allreduce.h"
#include "starling/train/job/job_graph.h"

namespace starling::train {
namespace {

// Options of the strategy with meshes, as the job gives them.
std::optional<AllReduceOptions> options_of(const Job& job) {
  const nlohmann::json options = job.distribute.strategy.json();
  if (!options.contains("mesh")) return std::nullopt;
  return read_settings<AllReduceOptions>(ConfigNode::parse(options.dump(), "distribute"));
}

dist::StatePlan plan_of(const AllReduceOptions& options, const Job& job) {
  return {options.mesh, options.layout, options.zero, static_cast<int>(job.distribute.workers)};
}

}  // namespace

std::optional<dist::StatePlan> state_plan(const Job& job) {
  const auto options = options_of(job);
  if (!options) return std::nullopt;
  return plan_of(*options, job);
}

void check_layout(const PreparedJob& prepared) {
  const auto options = options_of(prepared.job);
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
  dist::expect_whole_heads(dist::plan_step(trace_job(prepared, {.update = false}), plan, 0), plan);
}

}  // namespace starling::train
