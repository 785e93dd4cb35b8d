#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>

#include "starling/base/error.h"
#include "starling/base/file.h"
#include "starling/train/callbacks/ready_made.h"
#include "starling/train/ranks/link.h"
#include "starling/train/reads_through_run.h"

namespace starling {
namespace {

std::int64_t steady_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Profiler::Clock::now().time_since_epoch()).count();
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

std::string merged(const std::vector<std::string>& abouts, const std::vector<std::string>& traces) {
  const auto zero = nlohmann::json::parse(abouts[0]);
  nlohmann::json all;
  for (std::size_t rank = 0; rank < traces.size(); ++rank) {
    const auto about = nlohmann::json::parse(abouts[rank]);
    auto trace = nlohmann::json::parse(traces[rank]);
    const auto at = [](const nlohmann::json& json, const char* key) { return json.at(key).get<std::int64_t>(); };
    const bool same_clock = about.at("host") == zero.at("host");
    const std::int64_t clock = same_clock ? 0 : at(zero, "met") - at(about, "met");
    const auto shift = static_cast<double>(at(about, "began") + clock - at(zero, "began")) / 1e3;  // microseconds
    for (auto& event : trace.at("traceEvents")) {
      event["pid"] = rank;
      if (event.contains("ts")) event["ts"] = event.at("ts").get<double>() + shift;
      if (event.value("name", "") == "process_name") event["args"]["name"] = "rank " + std::to_string(rank);
    }
    if (rank == 0) {
      all = std::move(trace);
      continue;
    }
    all["dropped"] = at(all, "dropped") + at(trace, "dropped");
    for (auto& event : trace.at("traceEvents")) all["traceEvents"].push_back(std::move(event));
  }
  return all.dump();
}

class TraceSteps final : public Callback, public ReadsThroughRun {
 public:
  explicit TraceSteps(const TraceOptions& options) : options_(options) {
    check(!options.file.empty() && options.from >= 0 && options.steps >= 1,
          "[trace_steps] expected a file, from of at least 0 and steps of at least 1, got '{}', {} and {}",
          options.file.string(), options.from, options.steps);
  }
  std::string name() const override { return "trace_steps"; }
  void begin(Run& run) override { first_ = run.state().step; }
  StepWants before(Run& run) override {
    if (run.state().step - first_ != options_.from) return {};
    began_ns_ = steady_ns();
    run.program().set_profiler(&profiler_.emplace());
    return {};
  }
  void step(Run& run) override {
    if (profiler_ && run.state().step - first_ >= options_.from + options_.steps) write(run);
  }
  void end(Run& run) override {
    if (profiler_) write(run);
  }

 private:
  void write(Run& run) {
    run.program().set_profiler(nullptr);
    std::string trace = profiler_->chrome_trace();
    if (run.link() != nullptr) trace = of_all_ranks(*run.link(), trace);
    profiler_.reset();
    if (run.plan().rank != 0) return;
    if (auto written = write_file_atomically(options_.file, trace); !written) run.note("warning: " + written.error());
  }

  // Collective: what every rank has recorded, on one time line. Ranks of one host read the same clock; those of other
  // hosts are moved by how their clock stood when all had met.
  std::string of_all_ranks(RankLink& link, const std::string& own) const {
    link.meet();
    const nlohmann::json about = {{"met", steady_ns()}, {"began", began_ns_}, {"host", host_name()}};
    const auto abouts = link.gather(about.dump());
    const auto traces = link.gather(own);
    return link.leads() ? merged(abouts, traces) : std::string();
  }

  TraceOptions options_;
  std::int64_t first_ = 0;
  std::int64_t began_ns_ = 0;  // the clock when the profiler was made
  std::optional<Profiler> profiler_;
};

}  // namespace

CallbackPtr trace_steps(const TraceOptions& options) { return std::make_shared<TraceSteps>(options); }

}  // namespace starling
