#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "starling/cli/commands.h"
#include "starling/cli/job_file.h"
#include "starling/dist/mesh/region.h"
#include "starling/dist/strategy/sharded_state.h"
#include "starling/train/job/job_graph.h"
#include "starling/train/job/job_layout.h"

namespace starling::cli {
namespace {

struct InspectLayoutArguments : JobFile {
  int rank = 0;
};

std::string cuts_text(const dist::AxisCuts& cuts) {
  std::string text;
  for (const auto& [axis, layout] : cuts)
    text += fmt::format("{}{}: {}{}", text.empty() ? "" : ", ", axis,
                        layout.dim == 0 ? "dimension 0" : fmt::format("dimension {}", static_cast<int>(layout.dim)),
                        layout.gathered     ? ", gathered for use"
                        : layout.blocks > 1 ? fmt::format(" in {} blocks", static_cast<int>(layout.blocks))
                                            : "");
  return text.empty() ? "whole" : text;
}

struct Sizes {
  std::int64_t all = 0, here = 0;
};

Sizes print_parameters(const train::PreparedJob& prepared, const dist::StatePlan& plan, int rank) {
  const dist::ShardedState places(plan.mesh(), rank);
  Sizes sizes;
  for (const auto& [name, parameter] : prepared.net->named_parameters()) {
    const dist::AxisCuts cuts = plan.cuts(parameter, dist::StatePlan::kWeights);
    const Shape here = places.region(parameter.shape(), cuts, rank).shape();
    sizes.all += parameter.numel();
    sizes.here += here.numel();
    fmt::print("  {:<40} {:<16} {:<16} {}\n", name, to_string(parameter.type()), to_string(here), cuts_text(cuts));
  }
  return sizes;
}

void print_exchanges(const std::vector<dist::PlannedExchange>& exchanges) {
  struct Sum {
    int calls = 0;
    std::int64_t bytes = 0;
  };
  std::map<std::pair<std::string, std::string>, Sum> sums;
  for (const auto& one : exchanges) {
    fmt::print("  {:<14} {:<8} {:>12} {:<44} for {}\n", one.op, one.axis, one.bytes, one.value, one.reader);
    Sum& sum = sums[{one.axis, one.op}];
    ++sum.calls;
    sum.bytes += one.bytes;
  }
  for (const auto& [of, sum] : sums)
    fmt::print("{} along {}: {} in a step, of {} bytes\n", of.second, of.first, sum.calls, sum.bytes);
}

int run_layout(const InspectLayoutArguments& options) {
  const train::PreparedJob prepared = prepare_job(load_job(options));
  const auto plan = train::state_plan(prepared.job);
  if (!plan)
    throw UsageError(fmt::format("[inspect] expected a strategy with a mesh, which is allreduce, got {}",
                                 prepared.job.distribute.strategy.name));
  if (options.rank < 0 || options.rank >= plan->mesh().ranks())
    throw UsageError(
        fmt::format("[inspect] expected a rank from 0 to {}, got {}", plan->mesh().ranks() - 1, options.rank));
  fmt::print("mesh {}, {} workers, zero {}\n", plan->mesh().describe(), plan->mesh().ranks(), plan->zero());
  fmt::print("parameters: whole, on rank {}, how they are split\n", options.rank);
  const Sizes sizes = print_parameters(prepared, *plan, options.rank);
  fmt::print("{} of {} parameters on rank {}\n", sizes.here, sizes.all, options.rank);
  fmt::print("exchanges of a step: op, axis, bytes of the operand, value, first reader\n");
  print_exchanges(plan_step(trace_job(prepared), *plan, options.rank).exchanges);
  return kOk;
}

}  // namespace
}  // namespace starling::cli

namespace starling {

void register_command_inspect_layout(cli::Commands& into) {
  auto [app, o] = into.add<cli::InspectLayoutArguments>(
      "inspect layout", "Shows how a job's parameters lie on its mesh, and what a step exchanges",
      {{"inspect layout job.yaml", "pieces of rank 0, and every exchange of its step with who needs it"},
       {"inspect layout job.yaml --set 'distribute={mesh: {model: 2}, layout: singa_feature}'",
        "the same on another mesh"}},
      cli::run_layout);
  cli::add_job_options(app, o);
  app.add_option("--rank", o.rank, "Whose pieces to show")->capture_default_str();
}

}  // namespace starling
