#include "starling/cli/bench/bench_ranks.h"

#include "starling/cli/cli.h"
#include "starling/train/ranks/rank_trace.h"

namespace starling::cli {

BenchRanks::BenchRanks(const BenchRankOptions& options) {
  const bool several = as_usage([] { return train::among_processes({}); });
  if (!several) return;
  processes_ = train::join_processes({}, {.backend = options.backend});
  const auto codec = as_usage([&] { return dist::CodecChoice::parse(options.codec); });
  strategy_ =
      allreduce(processes_.comm, {.overlap = options.overlap == "on", .bucket_mb = options.bucket_mb, .codec = codec});
  link_.emplace(strategy_);
}

BenchRanks::~BenchRanks() = default;

std::string BenchRanks::backend() const {
  return alone() ? "none" : std::string(processes_.comm->capabilities().backend);
}

std::int64_t BenchRanks::agree(std::int64_t own) { return alone() ? own : link_->gather(own).front(); }

std::string BenchRanks::trace(const Profiler& profiler, Profiler::Clock::time_point began) {
  return alone() ? profiler.chrome_trace() : trace_of_all_ranks(*link_, profiler.chrome_trace(), began);
}

void BenchRanks::give_up(const std::string& why) const {
  if (alone()) return;
  processes_.failed(why);
  processes_.comm->abort(why);
}

}  // namespace starling::cli
