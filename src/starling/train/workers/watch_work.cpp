#include "starling/train/workers/watch_work.h"

#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <optional>
#include <ostream>
#include <utility>

#include "starling/base/file/file.h"
#include "starling/runtime/profile/profiler.h"

namespace starling::train {
namespace {

class WorkWatch {
 public:
  explicit WorkWatch(const WatchWorkOptions& options) : options_(options) {}

  void see(const WorkState& work) {
    explain(work.program);
    const TraceOptions& trace = options_.trace;
    if (trace.file.empty()) return;
    if (!profiler_ && work.portions == trace.from && !work.ended) work.program.set_profiler(&profiler_.emplace());
    if (profiler_ && (work.ended || work.portions == trace.from + trace.steps)) return write(work.program);
    if (work.ended) tell_none(work.portions);
  }

 private:
  // A program is known once a portion has run.
  void explain(CompiledFunction& program) {
    if (options_.explain == nullptr || program.programs() == 0) return;
    *std::exchange(options_.explain, nullptr) << program.graph() << program.explain() << std::flush;
  }

  void tell_none(std::int64_t portions) const {
    std::cerr << fmt::format(
        "starling: no trace in {}: the first worker did {} portions, and the first {} are left out\n",
        options_.trace.file.string(), portions, options_.trace.from);
  }

  void write(CompiledFunction& program) {
    program.set_profiler(nullptr);
    const auto written = write_file_atomically(options_.trace.file, profiler_->chrome_trace());
    profiler_.reset();
    if (!written) std::cerr << "starling: " << written.error() << std::endl;
    options_.trace.file.clear();
  }

  WatchWorkOptions options_;
  std::optional<Profiler> profiler_;
};

}  // namespace

WatchWork watch_work(const WatchWorkOptions& options) {
  return [watch = std::make_shared<WorkWatch>(options)](const WorkState& work) { watch->see(work); };
}

}  // namespace starling::train
