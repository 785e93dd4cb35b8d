#include "starling/runtime/profiler.h"

#include <nlohmann/json.hpp>

#include "starling/graph/graph.h"

namespace starling {

Profiler::Profiler(std::size_t capacity) : capacity_(capacity) { events_.reserve(capacity); }

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

std::string Profiler::chrome_trace() const {
  std::scoped_lock lock(mutex_);
  nlohmann::json trace{{"displayTimeUnit", "ns"}, {"dropped", dropped_}, {"traceEvents", nlohmann::json::array()}};
  for (const auto& e : events_) {
    trace["traceEvents"].push_back({{"name", e.name},
                                    {"ph", "X"},
                                    {"pid", e.rank},
                                    {"tid", name(static_cast<Lane>(e.lane))},
                                    {"ts", static_cast<double>(e.begin_ns) / 1e3},
                                    {"dur", static_cast<double>(e.end_ns - e.begin_ns) / 1e3},
                                    {"args", {{"kernel", e.kernel}}}});
  }
  return trace.dump();
}

}  // namespace starling
