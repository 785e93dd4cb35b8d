#include "starling/runtime/profile/profiler.h"

#include <algorithm>
#include <map>

#include "starling/base/error.h"

namespace starling {

Profiler::Profiler(std::size_t capacity) : capacity_(capacity) { events_.reserve(capacity); }

const runtime::ProgramProfile* Profiler::watch(const std::shared_ptr<const runtime::Executable>& executable) {
  std::scoped_lock lock(mutex_);
  for (const auto& known : watched_) {
    if (known.executable.lock() == executable) return known.profile.get();
  }
  watched_.push_back({executable, profile_of(*executable)});
  return watched_.back().profile.get();
}

void Profiler::record(const Event& event) {
  std::scoped_lock lock(mutex_);
  if (events_.size() == capacity_) {
    ++dropped_;
    return;
  }
  events_.push_back(event);
}

std::vector<Profiler::Event> Profiler::events() const {
  std::scoped_lock lock(mutex_);
  return events_;
}

void Profiler::clear() {
  std::scoped_lock lock(mutex_);
  events_.clear();
  dropped_ = 0;
}

std::vector<std::shared_ptr<const runtime::ProgramProfile>> Profiler::programs() const {
  std::scoped_lock lock(mutex_);
  std::vector<std::shared_ptr<const runtime::ProgramProfile>> all;
  for (const auto& one : watched_) all.push_back(one.profile);
  return all;
}

std::vector<Profiler::Total> Profiler::totals() const {
  std::scoped_lock lock(mutex_);
  std::map<std::pair<std::string, std::string>, Total> sums;
  for (const auto& event : events_) {
    Total& total = sums[{event.name, event.kernel}];
    total.op = event.name;
    total.kernel = event.kernel;
    ++total.calls;
    total.milliseconds += static_cast<double>(event.end_ns - event.begin_ns) / 1e6;
    if (event.program) total.cost += event.program->instructions[static_cast<std::size_t>(event.instruction)].cost;
  }
  std::vector<Total> all;
  for (auto& [key, total] : sums) all.push_back(std::move(total));
  std::stable_sort(all.begin(), all.end(),
                   [](const Total& a, const Total& b) { return a.milliseconds > b.milliseconds; });
  return all;
}

namespace {

// Share of the peak (compute or memory) that an op comes closer to; empty without a peak.
std::string share_of_peak(const Profiler::Total& total, const runtime::Peak& peak) {
  if (peak.flops_per_s <= 0 || peak.bytes_per_s <= 0 || total.milliseconds <= 0) return "";
  const double compute = total.cost.flops / (total.milliseconds / 1e3) / peak.flops_per_s;
  const double memory = total.cost.bytes() / (total.milliseconds / 1e3) / peak.bytes_per_s;
  return fmt::format("{:6.1f} % {}", 100 * std::max(compute, memory), compute > memory ? 'c' : 'm');
}

std::string row(const Profiler::Total& total, double all_ms, const runtime::Peak& peak) {
  const double seconds = std::max(total.milliseconds / 1e3, 1e-12);
  return fmt::format("{:<30} {:<14} {:>7} {:>10.3f} {:>6.1f} % {:>9.2f} {:>8.2f} {}\n", total.op, total.kernel,
                     total.calls, total.milliseconds, all_ms > 0 ? 100 * total.milliseconds / all_ms : 0.0,
                     total.cost.flops / seconds / 1e9, total.cost.bytes() / seconds / 1e9, share_of_peak(total, peak));
}

}  // namespace

std::string Profiler::table(const runtime::Peak& peak) const {
  const auto rows = totals();
  Total sum{.op = "all"};
  for (const auto& total : rows) {
    sum.calls += total.calls;
    sum.milliseconds += total.milliseconds;
    sum.cost += total.cost;
  }
  const bool compared = peak.flops_per_s > 0 && peak.bytes_per_s > 0;
  std::string text = fmt::format("{:<30} {:<14} {:>7} {:>10} {:>8} {:>9} {:>8} {}\n", "op", "kernel", "calls", "ms",
                                 "share", "GFLOP/s", "GB/s", compared ? " of peak" : "");
  for (const auto& total : rows) text += row(total, sum.milliseconds, peak);
  text += row(sum, sum.milliseconds, peak);
  if (compared)
    text += fmt::format("peak {:.1f} GFLOP/s (c), {:.1f} GB/s (m), as measured or given\n", peak.flops_per_s / 1e9,
                        peak.bytes_per_s / 1e9);
  std::scoped_lock lock(mutex_);
  if (dropped_ > 0) text += fmt::format("{} events did not fit and are not counted\n", dropped_);
  return text;
}

std::string Profiler::memory() const {
  std::string text;
  for (const auto& profile : programs()) text += memory_summary(*profile);
  return text;
}

}  // namespace starling
