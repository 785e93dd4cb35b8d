#include <nlohmann/json.hpp>
#include <set>

#include "starling/runtime/profile/profiler.h"

namespace starling {
namespace {

double microseconds(std::int64_t ns) { return static_cast<double>(ns) / 1e3; }

// Metadata events that name processes (ranks) and threads (lanes).
void name_lanes(nlohmann::json& events, const std::vector<Profiler::Event>& all) {
  std::set<std::pair<int, int>> lanes;
  std::set<int> ranks;
  for (const auto& e : all) {
    lanes.emplace(e.rank, e.lane);
    ranks.insert(e.rank);
  }
  for (int rank : ranks)
    events.push_back(
        {{"name", "process_name"}, {"ph", "M"}, {"pid", rank}, {"args", {{"name", "rank " + std::to_string(rank)}}}});
  for (const auto& [rank, lane] : lanes)
    events.push_back({{"name", "thread_name"},
                      {"ph", "M"},
                      {"pid", rank},
                      {"tid", lane},
                      {"args", {{"name", std::string(name(static_cast<graph::Lane>(lane)))}}}});
}

nlohmann::json arguments(const Profiler::Event& event) {
  nlohmann::json args{{"kernel", event.kernel}, {"lane", std::string(name(static_cast<graph::Lane>(event.lane)))}};
  if (!event.program) return args;
  const auto& what = event.program->instructions[static_cast<std::size_t>(event.instruction)];
  const double seconds = std::max(static_cast<double>(event.end_ns - event.begin_ns), 1.0) / 1e9;
  args["scope"] = what.scope;
  args["device"] = what.device;
  args["node"] = what.node;
  args["flops"] = what.cost.flops;
  args["bytes"] = what.cost.bytes();
  args["GFLOP/s"] = what.cost.flops / seconds / 1e9;
  args["GB/s"] = what.cost.bytes() / seconds / 1e9;
  return args;
}

nlohmann::json arena_counter(const Profiler::Event& event) {
  const std::size_t bytes = event.program->memory.in_use[static_cast<std::size_t>(event.instruction)];
  return {{"name", "arena in use"},
          {"ph", "C"},
          {"pid", event.rank},
          {"ts", microseconds(event.begin_ns)},
          {"args", {{"bytes", bytes}}}};
}

}  // namespace

std::string Profiler::chrome_trace() const {
  std::scoped_lock lock(mutex_);
  nlohmann::json trace{{"displayTimeUnit", "ns"}, {"dropped", dropped_}, {"traceEvents", nlohmann::json::array()}};
  auto& events = trace["traceEvents"];
  name_lanes(events, events_);
  for (const auto& e : events_) {
    events.push_back({{"name", e.name},
                      {"cat", e.program ? e.program->instructions[static_cast<std::size_t>(e.instruction)].scope : ""},
                      {"ph", "X"},
                      {"pid", e.rank},
                      {"tid", e.lane},
                      {"ts", microseconds(e.begin_ns)},
                      {"dur", microseconds(e.end_ns - e.begin_ns)},
                      {"args", arguments(e)}});
    if (e.program && e.lane == static_cast<int>(graph::Lane::compute)) events.push_back(arena_counter(e));
  }
  return trace.dump();
}

}  // namespace starling
