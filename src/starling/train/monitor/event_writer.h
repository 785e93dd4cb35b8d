#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "starling/base/result.h"
#include "starling/graph/graph.h"
#include "starling/train/monitor/histogram.h"
#include "starling/train/monitor/picture.h"

namespace starling {

// Whether this build can write TensorBoard's event files: it needs protobuf.
bool has_event_writer();

struct EventWriterOptions {
  // Readers forget what earlier files of the folder have of steps after this one: a resumed run makes those again.
  // Not set: the run begins, and all of it goes. A folder without such files needs neither.
  std::optional<std::int64_t> resumed_at{};
  std::function<double()> now{};  // seconds since 1970; null: the clock
};

struct Scalar {
  std::string tag;
  double value = 0;
};

using HyperParameters = std::vector<std::pair<std::string, nlohmann::json>>;  // numbers, booleans and texts
enum class SessionEnd { unknown, success, failure };

// Writes a TensorBoard event file into a folder: a new file each time, named so that readers take it after those that
// are there. Every call is one record, handed to the operating system as a whole: a killed run leaves a file that is
// good up to its last record. A call that fails leaves nothing of its record, and later calls are tried again.
class EventWriter {
 public:
  // Throws in builds without protobuf.
  static Result<EventWriter> create(const std::filesystem::path& folder, EventWriterOptions options = {});
  EventWriter(EventWriter&&) noexcept;
  EventWriter& operator=(EventWriter&&) noexcept;
  ~EventWriter();

  Result<void> scalars(std::int64_t step, std::span<const Scalar> values);  // values that are not finite as well
  Result<void> scalar(std::int64_t step, const std::string& tag, double value);
  Result<void> histogram(std::int64_t step, const std::string& tag, const Histogram& histogram);
  Result<void> image(std::int64_t step, const std::string& tag, const Picture& image);
  Result<void> text(std::int64_t step, const std::string& tag, const std::string& markdown);
  Result<void> graph(const Graph& graph);

  // For the page of hyper-parameters: what a run began with, the tags of the scalars it is judged by, how it ended.
  Result<void> begin_session(const HyperParameters& parameters, const std::vector<std::string>& metric_tags);
  Result<void> end_session(SessionEnd end);

  const std::filesystem::path& path() const;

 private:
  struct State;
  explicit EventWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace starling
