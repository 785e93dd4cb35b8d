#include "starling/runtime/program.h"

#include <chrono>

#include "starling/base/parallel.h"
#include "starling/runtime/instance.h"

namespace starling {
namespace {

class SingleProgram final : public Program {
 public:
  SingleProgram(const Graph& global, const Container& container, const BuildOptions& options) {
    PipelineResult passed = run_passes(global, {}, options.disable);
    reports_ = std::move(passed.reports);
    const int threads = options.threads > 0 ? options.threads : num_threads();
    auto executable = lower(
        std::move(passed.graph),
        {.threads = threads, .reuse_memory = options.reuse_memory, .reference_only = options.reference_only}, reports_);
    instance_ = std::make_unique<Instance>(std::move(executable), container);
  }

  void run(std::span<const Tensor> inputs, std::span<const Tensor> outputs) override {
    instance_->run(inputs, outputs);
  }
  const Graph& graph() const override { return instance_->executable().graph(); }
  std::string explain() const override { return describe(reports_) + instance_->executable().explain(); }
  void set_profiler(Profiler* profiler) override { instance_->set_profiler(profiler); }
  std::size_t memory_bytes() const override { return instance_->memory_bytes(); }
  std::vector<PassReport> reports() const override { return reports_; }

 private:
  std::vector<PassReport> reports_;
  std::unique_ptr<Instance> instance_;
};

}  // namespace

std::unique_ptr<Program> SingleStrategy::build(const Graph& global, const Container& container,
                                               const BuildOptions& options) {
  return std::make_unique<SingleProgram>(global, container, options);
}

std::shared_ptr<const Executable> lower(Graph graph, const ExecutableOptions& options,
                                        std::vector<PassReport>& reports) {
  PassReport report{.name = "lower", .nodes_before = graph.size()};
  const auto start = std::chrono::steady_clock::now();
  auto made = Executable::build(std::move(graph), options);
  report.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  report.nodes_after = static_cast<int>(made->instructions().size());
  reports.push_back(std::move(report));
  return made;
}

std::string describe(const std::vector<PassReport>& reports) {
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

}  // namespace starling
