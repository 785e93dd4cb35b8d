#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

#include "starling/base/file/file.h"
#include "starling/cli/bench/bench_net.h"
#include "starling/cli/commands.h"
#include "starling/cli/job_file.h"
#include "starling/dist/strategy/programs/planned_step.h"
#include "starling/graph/export/dot.h"
#include "starling/graph/export/svg.h"
#include "starling/graph/export/tensorboard.h"
#include "starling/graph/pass.h"
#include "starling/graph/printer.h"
#include "starling/runtime/execution/executable.h"
#include "starling/runtime/program.h"
#include "starling/train/job/job_graph.h"
#include "starling/train/job/job_layout.h"

namespace starling::cli {
namespace {

struct InspectGraphArguments : BenchOptions {
  std::string stage = "final";
  std::string format = "text";
  std::string layout = "auto";
  std::string out;
  std::vector<std::string> set;
  int rank = -1;  // rank on the mesh of a job whose program is shown; -1: the program of one process
  bool is_job() const { return net.ends_with(".yaml") || net.ends_with(".yml"); }
  std::string name() const { return is_job() ? std::filesystem::path(net).stem().string() : net; }
};

// Passes up to the requested stage; all for the last.
std::vector<graph::Pass> passes_for(const std::string& stage) {
  if (stage == "traced") return {};
  if (stage == "final") return graph::all_passes();
  std::vector<graph::Pass> passes;
  std::string known;
  for (const auto& pass : graph::all_passes()) {
    passes.push_back(pass);
    if (stage == "after:" + std::string(pass.name)) return passes;
    known += ", after:" + std::string(pass.name);
  }
  throw UsageError(fmt::format("[inspect] expected a stage, one of (traced, final{}), got '{}'", known, stage));
}

// Compiles as for running: large programs recompute some values to save memory.
graph::Graph graph_at(const InspectGraphArguments& options, const dist::RankPart& part,
                      const std::vector<graph::Pass>& passes) {
  if (options.stage != "final") return run_passes(part.graph, part.context, {}, passes).graph;
  return runtime::build_program(part.graph, part.context).executable->graph();
}

std::string svg(const InspectGraphArguments& options, const graph::Graph& graph, const std::string& title) {
  if (options.layout == "own") return to_svg(graph, title);
  if (auto drawn = to_svg_by_graphviz(graph, title)) return *drawn;
  check(options.layout == "auto",
        "[inspect] expected the program dot for --layout graphviz, got none that works "
        "(install graphviz, or take --layout own)");
  return to_svg(graph, title);
}

std::string rendered(const InspectGraphArguments& options, const graph::Graph& graph) {
  const std::string title =
      fmt::format("{} {}, {} ({} nodes)", options.name(), options.phase, options.stage, graph.size());
  if (options.format == "dot") return to_dot(graph, title);
  if (options.format == "svg") return svg(options, graph, title);
  if (options.format == "tensorboard") return to_tensorboard(graph);
  return print(graph);
}

// TensorBoard takes a folder and reads files with this word in their names.
std::filesystem::path file_for(const InspectGraphArguments& options) {
  std::filesystem::path file = options.out;
  if (options.format != "tensorboard" || file.filename().string().find("tfevents") != std::string::npos) return file;
  std::filesystem::create_directories(file);
  return file / fmt::format("events.out.tfevents.{}.{}", options.name(), options.phase);
}

graph::Graph graph_of_net(const InspectGraphArguments& options) {
  BenchNet net(options);
  return graph::trace(net.function(), net.arguments()).graph;
}

// With a rank: its program on the job's mesh, as the strategy makes it. Before any pass that of all ranks.
dist::RankPart part_of_job(const InspectGraphArguments& options) {
  const train::PreparedJob prepared = prepare_job(load_job({options.net, options.set}));
  graph::Graph traced = trace_job(prepared, {.train = options.phase == "train", .batch = options.batch});
  if (options.rank < 0) return {std::move(traced), {}};
  const auto plan = train::state_plan(prepared.job);
  if (!plan)
    throw UsageError(fmt::format("[inspect] expected a strategy with a mesh for --rank, which is allreduce, got {}",
                                 prepared.job.distribute.strategy.name));
  if (options.rank >= plan->mesh().ranks())
    throw UsageError(
        fmt::format("[inspect] expected a rank from 0 to {}, got {}", plan->mesh().ranks() - 1, options.rank));
  if (options.stage == "traced") return {std::move(traced), {}};
  return rank_part(traced, *plan, options.rank);
}

int run_graph(const InspectGraphArguments& options) {
  if (options.format == "tensorboard" && options.out.empty())
    throw UsageError("[inspect] expected -o FOLDER with --format tensorboard, got none");
  if (options.rank >= 0 && !options.is_job())
    throw UsageError("[inspect] expected a job file with --rank, got the network " + options.net);
  const auto passes = passes_for(options.stage);
  const dist::RankPart part = options.is_job() ? part_of_job(options) : dist::RankPart{graph_of_net(options), {}};
  const std::string text = rendered(options, graph_at(options, part, passes));
  if (options.out.empty()) {
    std::cout << text;
    return kOk;
  }
  const auto file = file_for(options);
  write_file_atomically(file, text).value();
  fmt::print("{}\n", file.string());
  return kOk;
}

}  // namespace
}  // namespace starling::cli

namespace starling {

void register_command_inspect_graph(cli::Commands& into) {
  auto [app, o] = into.add<cli::InspectGraphArguments>(
      "inspect graph", "Writes the graph of a network's step as text or as a picture",
      {{"inspect graph lenet", "the program of a training step as it runs, as text"},
       {"inspect graph lenet --stage traced --format svg -o lenet.svg", "a picture of it before any pass"},
       {"inspect graph job.yaml --stage after:partition --rank 0", "what worker 0 of a job's mesh computes and sends"},
       {"inspect graph job.yaml --phase forward", "what the network of a job computes for a prediction"},
       {"inspect graph lenet --format tensorboard -o runs/graph", "for tensorboard --logdir runs/graph"}},
      cli::run_graph);
  app.add_option("net,--net", o.net, "Name of a network (starling bench --list has them), or a job file (YAML)")
      ->required();
  app.add_option("--phase", o.phase, "forward or train")
      ->check(CLI::IsMember({"forward", "train"}))
      ->capture_default_str();
  app.add_option("--stage", o.stage, "traced: before any pass; final: as it runs; after:PASS, as after:fuse")
      ->capture_default_str();
  app.add_option("--rank", o.rank, "Worker on the mesh of a job whose program to show; without: that of one process")
      ->check(CLI::Range(0, 65535));
  app.add_option("--format", o.format,
                 "text: loads back; dot: for Graphviz; svg: for browsers; tensorboard: an event file")
      ->check(CLI::IsMember({"text", "dot", "svg", "tensorboard"}))
      ->capture_default_str();
  app.add_option("--layout", o.layout, "Of svg: graphviz, own, or auto for graphviz where it is installed")
      ->check(CLI::IsMember({"auto", "graphviz", "own"}))
      ->capture_default_str();
  app.add_option("--batch", o.batch, "Samples in a batch; 0: as in the published figures, or as the job says")
      ->check(CLI::Range(0, 1 << 20));
  app.add_option("--dtype", o.dtype, "f32 or f64, of a network by name")->capture_default_str();
  app.add_option("--set", o.set, "Replaces a value of the job: model.name=lenet; may be given again")
      ->allow_extra_args(false);
  app.add_option("-o,--out", o.out,
                 "File to write; nothing: standard output. For tensorboard a folder, as tensorboard --logdir takes it");
}

}  // namespace starling
