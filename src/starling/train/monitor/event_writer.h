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

namespace starling::train {

// True if this build can write TensorBoard event files, which needs protobuf.
bool has_event_writer();

struct EventWriterOptions {
  // Step at which the run resumed: readers drop later steps of earlier files, since the run makes them again. Not set:
  // a new run, and readers drop all of them. Irrelevant in a folder without event files.
  std::optional<std::int64_t> resumed_at{};
  std::function<double()> now{};  // clock in seconds since 1970; null: the system clock
};

struct Scalar {
  std::string tag;
  double value = 0;
};

using HyperParameters = std::vector<std::pair<std::string, nlohmann::json>>;  // numbers, booleans and strings
enum class SessionEnd { unknown, success, failure };

// Writes a new TensorBoard event file into a folder, named so that readers order it after the existing ones. Every call
// writes one record as a whole: a killed run leaves a file valid up to its last record. A failed call leaves nothing of
// its record, and later calls are tried again.
class EventWriter {
 public:
  // Throws in builds without protobuf.
  static Result<EventWriter> create(const std::filesystem::path& folder, EventWriterOptions options = {});
  EventWriter(EventWriter&&) noexcept;
  EventWriter& operator=(EventWriter&&) noexcept;
  ~EventWriter();

  Result<void> scalars(std::int64_t step, std::span<const Scalar> values);  // non-finite values too
  Result<void> scalar(std::int64_t step, const std::string& tag, double value);
  Result<void> histogram(std::int64_t step, const std::string& tag, const Histogram& histogram);
  Result<void> image(std::int64_t step, const std::string& tag, const Picture& image);
  Result<void> text(std::int64_t step, const std::string& tag, const std::string& markdown);
  Result<void> graph(const graph::Graph& graph);

  // For TensorBoard's HParams page: the run's hyper-parameters, the tags of its metrics, and how it ended.
  Result<void> begin_session(const HyperParameters& parameters, const std::vector<std::string>& metric_tags);
  Result<void> end_session(SessionEnd end);

  const std::filesystem::path& path() const;

 private:
  struct State;
  explicit EventWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace starling::train
