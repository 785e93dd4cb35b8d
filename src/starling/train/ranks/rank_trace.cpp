#include "starling/train/ranks/rank_trace.h"

#include <chrono>
#include <nlohmann/json.hpp>

#include "starling/dist/launch/hosts.h"

namespace starling::train {
namespace {

std::int64_t nanoseconds(Profiler::Clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
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

}  // namespace

std::string trace_of_all_ranks(RankLink& link, const std::string& own, Profiler::Clock::time_point began) {
  link.meet();
  const nlohmann::json about = {
      {"met", nanoseconds(Profiler::Clock::now())}, {"began", nanoseconds(began)}, {"host", dist::host_name()}};
  const auto abouts = link.gather(about.dump());
  const auto traces = link.gather(own);
  return link.leads() ? merged(abouts, traces) : std::string();
}

}  // namespace starling::train
