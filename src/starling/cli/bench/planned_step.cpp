#include "starling/cli/bench/planned_step.h"

#include <fmt/format.h>

#include <sstream>

#include "starling/base/parallel.h"
#include "starling/graph/printer.h"
#include "starling/graph/tracer.h"
#include "starling/nn/deferred_weights.h"
#include "starling/optim/deferred_state.h"
#include "starling/runtime/user_options.h"
#include "starling/tensor/bytes.h"

namespace starling::cli {
namespace {

double megabytes(std::int64_t bytes) { return static_cast<double>(bytes) / 1e6; }

}  // namespace

PlannedStep::PlannedStep(const BenchOptions& options) {
  const nn::DeferredWeights weights;
  const optim::DeferredState state([](const Tensor&) { return true; });
  BenchNet net(options);
  const std::vector<Tensor> arguments = net.arguments();
  const graph::Trace traced = graph::trace(net.function(), arguments);
  const int threads = options.threads > 0 ? options.threads : num_threads();
  built_ = runtime::build_program(traced.graph, {.program = runtime::program_options(net.compile_options(), threads)});
  variables_ = net.variable_bytes();
  for (const auto& argument : arguments) operands_ += static_cast<std::int64_t>(bytes_of(argument));
  const graph::Graph& graph = built_.executable->graph();
  for (const graph::ValueId out : graph.outputs)
    operands_ += static_cast<std::int64_t>(bytes_of(graph.value(out).type));
}

std::string PlannedStep::print() const {
  std::ostringstream text;
  text << built_.executable->graph() << runtime::describe(built_.reports) << built_.executable->explain();
  text << fmt::format(
      "memory: {:.1f} MB: variables {:.1f} MB, arena and scratch {:.1f} MB, batch and results {:.1f} MB\n",
      megabytes(all()), megabytes(variables()), megabytes(arena()), megabytes(operands()));
  return text.str();
}

}  // namespace starling::cli
