#include "starling/runtime/program.h"

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
    auto executable = Executable::build(
        std::move(passed.graph),
        {.threads = threads, .reuse_memory = options.reuse_memory, .reference_only = options.reference_only});
    instance_ = std::make_unique<Instance>(std::move(executable), container);
  }

  void run(std::span<const Tensor> inputs, std::span<const Tensor> outputs) override {
    instance_->run(inputs, outputs);
  }
  const Graph& graph() const override { return instance_->executable().graph(); }
  std::string explain() const override { return describe(reports_) + instance_->executable().explain(); }
  void set_profiler(Profiler* profiler) override { instance_->set_profiler(profiler); }
  std::size_t memory_bytes() const override { return instance_->memory_bytes(); }

 private:
  std::vector<PassReport> reports_;
  std::unique_ptr<Instance> instance_;
};

}  // namespace

std::unique_ptr<Program> SingleStrategy::build(const Graph& global, const Container& container,
                                               const BuildOptions& options) {
  return std::make_unique<SingleProgram>(global, container, options);
}

std::string describe(const std::vector<PassReport>& reports) {
  std::string text = "pass               ms  nodes\n";
  for (const auto& r : reports) {
    text += r.skipped ? fmt::format("{:16}  off  {}\n", r.name, r.nodes_before)
                      : fmt::format("{:16} {:4.2f}  {} -> {}\n", r.name, r.milliseconds, r.nodes_before, r.nodes_after);
  }
  return text;
}

}  // namespace starling
