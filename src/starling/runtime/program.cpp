#include "starling/runtime/program.h"

#include <algorithm>
#include <chrono>

#include "starling/base/error.h"
#include "starling/graph/cost/cost.h"
#include "starling/runtime/execution/instance.h"

namespace starling::runtime {
namespace {

class SingleProgram final : public Program {
 public:
  SingleProgram(const graph::Graph& global, const Container& container, const BuildOptions& options) {
    BuiltProgram built = build_program(global, {.program = options.program});
    reports_ = std::move(built.reports);
    instance_ = std::make_unique<Instance>(std::move(built.executable), container);
  }

  void run(std::span<const Tensor> inputs, std::span<const Tensor> outputs) override {
    instance_->run(inputs, outputs);
  }
  const graph::Graph& graph() const override { return instance_->executable().graph(); }
  std::string explain() const override { return describe(reports_) + instance_->executable().explain(); }
  void set_profiler(Profiler* profiler) override { instance_->set_profiler(profiler); }
  std::size_t memory_bytes() const override { return instance_->memory_bytes(); }
  std::vector<graph::PassReport> reports() const override { return reports_; }

 private:
  std::vector<graph::PassReport> reports_;
  std::unique_ptr<Instance> instance_;
};

// Program of a graph under a memory budget, made as often as it takes to find the budget that serves.
class BudgetedBuild {
 public:
  BudgetedBuild(const graph::Graph& global, const graph::PassContext& context)
      : passes_(global, context), options_(context.program) {}

  const graph::ProgramOptions& options() const { return options_; }

  // `memory_budget`: limit of the values' bytes, as passes count them; 0: none.
  BuiltProgram within(std::size_t memory_budget) const {
    graph::PipelineResult passed = passes_.within(memory_budget);
    auto executable = lower(std::move(passed.graph), options_, passed.reports);
    return {std::move(executable), std::move(passed.reports)};
  }

 private:
  graph::BudgetedPasses passes_;
  graph::ProgramOptions options_;
};

// Estimated run time of a program in FLOPs: a byte of memory traffic costs as much as four.
double work_of(const graph::Graph& graph) {
  const graph::Cost cost = cost_of(graph);
  return cost.flops + 4 * cost.bytes();
}

// Saves about three tenths of a large program's memory where that is nearly free: normalisations and activations are
// recomputed in the backward pass.
BuiltProgram slimmed(BuiltProgram built, const BudgetedBuild& build) {
  constexpr std::size_t kLarge = std::size_t{512} << 20;
  constexpr double kMoreWork = 1.02;
  const graph::ProgramOptions& options = build.options();
  const bool off = options.disable.contains("all") || options.disable.contains("rematerialise");
  if (off || !options.reuse_memory || built.executable->arena_bytes() < kLarge) return built;
  BuiltProgram smaller = build.within(built.executable->arena_bytes() / 10 * 7);
  const bool pays = smaller.executable->arena_bytes() < built.executable->arena_bytes() &&
                    work_of(smaller.executable->graph()) < kMoreWork * work_of(built.executable->graph());
  return pays ? smaller : built;
}

}  // namespace

BuiltProgram build_program(const graph::Graph& global, const graph::PassContext& context) {
  constexpr int kRounds = 8;
  const graph::ProgramOptions& options = context.program;
  check(options.branches >= 1 && options.branches <= graph::kMostBranches,
        "[compile] expected 1 to {} branches, got {}", graph::kMostBranches, options.branches);
  const BudgetedBuild build(global, context);
  BuiltProgram built = build.within(0);
  const std::size_t budget = options.memory_budget;
  if (budget == 0) return slimmed(std::move(built), build);
  std::size_t least = built.executable->arena_bytes();
  // The pass counts values only; scratch, copies and gaps come on top. Each attempt aims lower by the excess of the
  // last.
  std::size_t aim = budget;
  for (int round = 0; least > budget && round < kRounds && aim > 0; ++round) {
    const std::size_t within = round + 1 < kRounds ? aim : 1;
    built = build.within(within);
    const std::size_t bytes = built.executable->arena_bytes();
    least = std::min(least, bytes);
    if (bytes <= budget || within == 1) break;
    const std::size_t over = std::max(bytes - budget, budget / 64);
    aim = aim > over ? aim - over : 1;
  }
  check(least <= budget, "[compile] expected a memory budget of at least {} bytes for this program, got {}", least,
        budget);
  return built;
}

void Strategy::clear(const Tensor& slot) {
  fail("[{}] expected the gradient slot '{}' to have memory, got none", name(), slot.name());
}

std::unique_ptr<Program> SingleStrategy::build(const graph::Graph& global, const Container& container,
                                               const BuildOptions& options) {
  return std::make_unique<SingleProgram>(global, container, options);
}

std::shared_ptr<const Executable> lower(graph::Graph graph, const graph::ProgramOptions& options,
                                        std::vector<graph::PassReport>& reports) {
  graph::PassReport report{.name = "lower", .nodes_before = graph.size()};
  const auto start = std::chrono::steady_clock::now();
  auto made = Executable::build(std::move(graph), options);
  report.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  report.nodes_after = static_cast<int>(made->instructions().size());
  reports.push_back(std::move(report));
  return made;
}

std::string describe(const std::vector<graph::PassReport>& reports) {
  std::string text = fmt::format("{:16} {:>8} {:>10}  nodes\n", "pass", "ms", "verify ms");
  double all = 0, verified = 0;
  for (const auto& r : reports) {
    all += r.milliseconds;
    verified += r.verify_ms;
    text += r.skipped ? fmt::format("{:16} {:>8} {:>10}  {}\n", r.name, "off", "", r.nodes_before)
                      : fmt::format("{:16} {:8.2f} {:10.2f}  {} -> {}\n", r.name, r.milliseconds, r.verify_ms,
                                    r.nodes_before, r.nodes_after);
  }
  return text + fmt::format("{:16} {:8.2f} {:10.2f}\n", "all", all, verified);
}

}  // namespace starling::runtime
