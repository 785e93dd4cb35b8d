#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "starling/base/file/file.h"
#include "starling/base/wrap.h"
#include "starling/cli/commands.h"
#include "starling/cli/inspect/layout_picture.h"
#include "starling/cli/job_file.h"
#include "starling/cli/terminal/help_width.h"
#include "starling/dist/mesh/region.h"
#include "starling/dist/strategy/state/sharded_state.h"
#include "starling/nn/deferred_weights.h"
#include "starling/runtime/execution/executable.h"
#include "starling/runtime/program.h"
#include "starling/tensor/bytes.h"
#include "starling/train/job/job_graph.h"
#include "starling/train/job/job_layout.h"

namespace starling::cli {
namespace {

struct InspectLayoutArguments : JobFile {
  int rank = 0;
  std::string out;
};

struct Sizes {
  std::int64_t all = 0, here = 0;
};

void print_title(const std::string& title) { fmt::print("{}\n", fitted(title, 0)); }

// A row of a table; where the terminal has no room for it, what stands last goes on below.
void print_row(std::string head, const std::string& rest) {
  constexpr std::size_t kIndent = 6;
  const std::size_t columns = help_columns();
  if (columns == 0 || text_width(head) + 1 + text_width(rest) <= columns) {
    fmt::print("{} {}\n", head, rest);
    return;
  }
  head.resize(head.find_last_not_of(' ') + 1);
  fmt::print("{}\n{}\n", fitted(head, kIndent), fitted(std::string(kIndent, ' ') + rest, kIndent));
}

std::vector<PlacedParameter> placed_parameters(const train::PreparedJob& prepared, const dist::StatePlan& plan,
                                               int rank) {
  const dist::ShardedState places(plan.mesh(), rank);
  std::vector<PlacedParameter> placed;
  for (const auto& [name, parameter] : prepared.net->named_parameters()) {
    const dist::AxisCuts cuts = plan.cuts(parameter, dist::StatePlan::kWeights);
    placed.push_back({name, parameter.type(), places.region(parameter.shape(), cuts, rank).shape(), cuts});
  }
  return placed;
}

void print_parameters(const std::vector<PlacedParameter>& parameters, int rank) {
  Sizes sizes, bytes;
  fmt::print("parameters: whole, on rank {}, how they are split\n", rank);
  for (const auto& [name, whole, here, cuts] : parameters) {
    sizes.all += whole.shape.numel();
    sizes.here += here.numel();
    bytes.all += static_cast<std::int64_t>(bytes_of(whole.shape, whole.dtype));
    bytes.here += static_cast<std::int64_t>(bytes_of(here, whole.dtype));
    print_row(fmt::format("  {:<40} {:<16} {:<16}", name, to_string(whole), to_string(here)), cuts_text(cuts));
  }
  fmt::print("{} of {} parameters on rank {}, {} of {} bytes\n", sizes.here, sizes.all, rank, bytes.here, bytes.all);
}

void print_activations(const std::vector<dist::PlannedValue>& values, int rank) {
  Sizes bytes;
  print_title(fmt::format("values of the forward pass: module, op, whole, on rank {}, how they are split", rank));
  for (const auto& [op, scope, whole, here, layouts] : values) {
    bytes.all += static_cast<std::int64_t>(bytes_of(whole.shape, whole.dtype));
    bytes.here += static_cast<std::int64_t>(bytes_of(here.shape, here.dtype));
    print_row(fmt::format("  {:<32} {:<20}", dotted(scope), op),
              fmt::format("{:<18} {:<18} {}", to_string(whole), to_string(here.shape), cuts_text(layouts)));
  }
  fmt::print("{} of {} bytes of these values on rank {}\n", bytes.here, bytes.all, rank);
}

// Values of the forward pass are labelled with their modules; gradients came from some.
std::string value_text(const dist::PlannedExchange& one) {
  const std::string label = dotted(one.value);
  return one.backward && !one.scope.empty() ? fmt::format("{} of {}", label, dotted(one.scope)) : label;
}

void print_exchanges(const std::vector<dist::PlannedExchange>& exchanges) {
  struct Sum {
    int calls = 0;
    std::int64_t bytes = 0, sent = 0;
  };
  std::map<std::pair<std::string, std::string>, Sum> sums;
  print_title("exchanges of a step: op, axis, bytes of the operand, bytes sent, pass, value, why");
  for (const auto& one : exchanges) {
    print_row(fmt::format("  {:<14} {:<8} {:>10} {:>10} {:<8}", one.op, one.axis, one.bytes, one.sent,
                          one.backward ? "backward" : "forward"),
              fmt::format("{:<44} {}", value_text(one), reason_text(one)));
    Sum& sum = sums[{one.axis, one.op}];
    ++sum.calls;
    sum.bytes += one.bytes;
    sum.sent += one.sent;
  }
  for (const auto& [of, sum] : sums)
    fmt::print("{} along {}: {} in a step, of {} bytes, {} sent\n", of.second, of.first, sum.calls, sum.bytes,
               sum.sent);
}

void print_fallbacks(const std::vector<dist::PlannedFallback>& fallbacks) {
  fmt::print("{} ops take whole operands though pieces are there{}\n", fallbacks.size(), fallbacks.empty() ? "" : ":");
  for (const auto& one : fallbacks)
    print_row(fmt::format("  {:<20} in {:<40}", one.op, one.scope.empty() ? "the step" : dotted(one.scope)),
              fmt::format("{} along {}", to_string(one.layout), one.axis));
}

// Memory that a program of this rank takes by its plan: state that it reads, and its own values, buckets and gathered
// layers.
struct ProgramMemory {
  std::size_t state = 0, values = 0;
};

ProgramMemory memory_of(const graph::Graph& traced, const dist::StatePlan& plan, int rank) {
  const dist::RankPart part = rank_part(traced, plan, rank);
  const auto built = runtime::build_program(part.graph, part.context);
  ProgramMemory memory{.values = built.executable->arena_bytes()};
  for (const graph::GraphVariable& variable : built.executable->graph().variables)
    memory.state += static_cast<std::size_t>(bytes_of(variable.type.shape, variable.type.dtype));
  return memory;
}

void print_memory(const train::PreparedJob& prepared, const graph::Graph& step, const dist::StatePlan& plan, int rank) {
  const ProgramMemory trained = memory_of(step, plan, rank);
  const auto evaluation = train::trace_job(prepared, {.train = false, .batch = prepared.job.data.load.eval_batch});
  const ProgramMemory evaluated = memory_of(evaluation, plan, rank);
  fmt::print("{}\n",
             fitted(fmt::format("memory of rank {} by plan: {} bytes of state, {} of a step, {} of an evaluation, "
                                "{} together",
                                rank, trained.state, trained.values, evaluated.values,
                                trained.state + trained.values + evaluated.values),
                    0));
}

int run_layout(const InspectLayoutArguments& options) {
  const nn::DeferredWeights sizes_alone;
  const train::PreparedJob prepared = prepare_job(load_job(options));
  const auto plan = train::state_plan(prepared.job);
  if (!plan)
    throw UsageError(fmt::format("[inspect] expected a strategy with a mesh, which is allreduce, got {}",
                                 prepared.job.distribute.strategy.name));
  expect_layout(prepared);
  if (options.rank < 0 || options.rank >= plan->mesh().ranks())
    throw UsageError(
        fmt::format("[inspect] expected a rank from 0 to {}, got {}", plan->mesh().ranks() - 1, options.rank));
  const std::string title =
      fmt::format("mesh {}, {} workers, zero {}", plan->mesh().describe(), plan->mesh().ranks(), plan->zero());
  const std::vector<PlacedParameter> parameters = placed_parameters(prepared, *plan, options.rank);
  const graph::Graph traced = trace_job(prepared);
  const dist::PlannedStep step = plan_step(traced, *plan, options.rank);
  if (!options.out.empty()) {
    const std::string picture =
        layout_picture(fmt::format("{}, rank {}", title, options.rank), plan->mesh(), options.rank, parameters, step);
    write_file_atomically(options.out, picture).value();
    fmt::print("{}\n", options.out);
    return kOk;
  }
  fmt::print("{}\n", title);
  print_parameters(parameters, options.rank);
  print_activations(step.values, options.rank);
  print_exchanges(step.exchanges);
  print_fallbacks(step.fallbacks);
  print_memory(prepared, traced, *plan, options.rank);
  return kOk;
}

}  // namespace
}  // namespace starling::cli

namespace starling {

void register_command_inspect_layout(cli::Commands& into) {
  auto [app, o] = into.add<cli::InspectLayoutArguments>(
      "inspect layout", "Shows how a job's parameters and activations lie on its mesh, and what a step exchanges",
      {{"inspect layout job.yaml", "pieces of rank 0, and every exchange of its step with who needs it"},
       {"inspect layout job.yaml -o layout.svg", "a picture of both"},
       {"inspect layout job.yaml --set 'distribute={mesh: {model: 2}, layout: singa_feature}'",
        "the same on another mesh"}},
      cli::run_layout);
  cli::add_job_options(app, o);
  app.add_option("--rank", o.rank, "Whose pieces to show")->capture_default_str();
  app.add_option("-o,--out", o.out, "Picture to write (SVG) in place of the text");
}

}  // namespace starling
