#include <fmt/format.h>

#include <optional>

#include "starling/base/error.h"
#include "starling/base/file/file.h"
#include "starling/train/callbacks/ready_made.h"
#include "starling/train/ranks/rank_trace.h"

namespace starling {
namespace {

class TraceSteps final : public Callback {
 public:
  explicit TraceSteps(const TraceOptions& options) : options_(options) {
    check(!options.file.empty() && options.from >= 0 && options.steps >= 1,
          "[trace_steps] expected a file, from of at least 0 and steps of at least 1, got '{}', {} and {}",
          options.file.string(), options.from, options.steps);
  }
  std::string name() const override { return "trace_steps"; }
  bool looks_at_loss(std::int64_t) const override { return false; }
  void begin(Run& run) override { first_ = run.state().step; }
  StepWants before(Run& run) override {
    if (run.state().step - first_ != options_.from) return {};
    began_any_ = true;
    began_ = Profiler::Clock::now();
    run.program().set_profiler(&profiler_.emplace());
    return {};
  }
  void step(Run& run) override {
    if (profiler_ && run.state().step - first_ >= options_.from + options_.steps) write(run);
  }
  void end(Run& run) override {
    if (profiler_) write(run);
    if (!began_any_)
      run.note(fmt::format("warning: no trace in {}: the run made {} steps, and the first {} are left out",
                           options_.file.string(), run.state().step - first_, options_.from));
  }

 private:
  void write(Run& run) {
    run.program().set_profiler(nullptr);
    std::string trace = profiler_->chrome_trace();
    if (run.link() != nullptr) trace = trace_of_all_ranks(*run.link(), trace, began_);
    profiler_.reset();
    if (run.plan().rank != 0) return;
    if (auto written = write_file_atomically(options_.file, trace); !written) run.note("warning: " + written.error());
  }

  TraceOptions options_;
  std::int64_t first_ = 0;
  bool began_any_ = false;
  Profiler::Clock::time_point began_{};  // creation time of the profiler
  std::optional<Profiler> profiler_;
};

}  // namespace

CallbackPtr trace_steps(const TraceOptions& options) { return std::make_shared<TraceSteps>(options); }

}  // namespace starling
