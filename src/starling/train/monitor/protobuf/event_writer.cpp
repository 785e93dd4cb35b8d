#include "starling/train/monitor/event_writer.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>

#include "events.pb.h"
#include "starling/base/error.h"
#include "starling/dist/launch/hosts.h"
#include "starling/graph/export/record_file.h"
#include "starling/graph/export/tensorboard.h"
#include "starling/train/monitor/append_file.h"

namespace starling::train {
namespace {

namespace pb = ::starling::events;
namespace fs = std::filesystem;

constexpr const char* kPrefix = "events.out.tfevents.";

double clock_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Latest time in the names of the folder's event files; -1 if none.
std::int64_t newest_file(const fs::path& folder) {
  std::int64_t newest = -1;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const std::size_t begin = std::string_view(kPrefix).size();
    if (!name.starts_with(kPrefix)) continue;
    std::int64_t seconds = 0;
    std::from_chars(name.data() + begin, name.data() + name.size(), seconds);
    newest = std::max(newest, seconds);
  }
  return newest;
}

void add_metadata(pb::Summary::Value& value, const std::string& plugin, const std::string& content = "") {
  auto& data = *value.mutable_metadata()->mutable_plugin_data();
  data.set_plugin_name(plugin);
  data.set_content(content);
}

pb::HParamValue hparam_value(const nlohmann::json& value) {
  pb::HParamValue made;
  if (value.is_boolean()) {
    made.set_bool_value(value.get<bool>());
  } else if (value.is_number()) {
    made.set_number_value(value.get<double>());
  } else {
    made.set_string_value(value.is_string() ? value.get<std::string>() : value.dump());
  }
  return made;
}

pb::HParamInfo::Type hparam_type(const nlohmann::json& value) {
  if (value.is_boolean()) return pb::HParamInfo::DATA_TYPE_BOOL;
  return value.is_number() ? pb::HParamInfo::DATA_TYPE_FLOAT64 : pb::HParamInfo::DATA_TYPE_STRING;
}

}  // namespace

bool has_event_writer() { return true; }

struct EventWriter::State {
  AppendFile file;
  std::function<double()> now;

  Result<void> write(pb::Event& event, std::int64_t step) {
    event.set_wall_time(now());
    event.set_step(step);
    std::string bytes;
    if (!event.SerializeToString(&bytes)) return failure("[monitor] expected an event of less than 2 GB, got more");
    return file.append(graph::framed_record(bytes));
  }

  Result<void> write_hparams(const std::string& tag, pb::HParamsPluginData data) {
    data.set_version(0);
    pb::Event event;
    auto& value = *event.mutable_summary()->add_value();
    value.set_tag(tag);
    add_metadata(value, "hparams", data.SerializeAsString());
    auto& nothing = *value.mutable_tensor();  // required by readers that only know values
    nothing.set_dtype(pb::DT_FLOAT);
    nothing.mutable_tensor_shape();
    nothing.add_float_val(0);
    return write(event, 0);
  }
};

EventWriter::EventWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
EventWriter::EventWriter(EventWriter&&) noexcept = default;
EventWriter& EventWriter::operator=(EventWriter&&) noexcept = default;
EventWriter::~EventWriter() = default;

Result<EventWriter> EventWriter::create(const fs::path& folder, EventWriterOptions options) {
  if (!options.now) options.now = clock_seconds;
  const std::int64_t newest = newest_file(folder);
  const std::int64_t seconds = std::max(static_cast<std::int64_t>(options.now()), newest + 1);
  auto file =
      AppendFile::open(folder / fmt::format("{}{:010}.{}.{}.0", kPrefix, seconds, dist::host_name(), ::getpid()), 0);
  if (!file) return file.failure();
  EventWriter writer(std::make_unique<State>(State{std::move(*file), std::move(options.now)}));
  pb::Event version;
  version.set_file_version("brain.Event:2");
  if (auto written = writer.state_->write(version, 0); !written) return written.failure();
  if (newest < 0) return writer;
  pb::Event start;
  start.mutable_session_log()->set_status(pb::SessionLog::START);
  const std::int64_t from = options.resumed_at ? *options.resumed_at + 1 : 0;
  if (auto written = writer.state_->write(start, from); !written) return written.failure();
  return writer;
}

Result<void> EventWriter::scalars(std::int64_t step, std::span<const Scalar> values) {
  pb::Event event;
  for (const auto& scalar : values) {
    auto& value = *event.mutable_summary()->add_value();
    value.set_tag(scalar.tag);
    value.set_simple_value(static_cast<float>(scalar.value));
  }
  return state_->write(event, step);
}

Result<void> EventWriter::scalar(std::int64_t step, const std::string& tag, double value) {
  const Scalar one{tag, value};
  return scalars(step, {&one, 1});
}

Result<void> EventWriter::histogram(std::int64_t step, const std::string& tag, const Histogram& histogram) {
  pb::Event event;
  auto& value = *event.mutable_summary()->add_value();
  value.set_tag(tag);
  auto& histo = *value.mutable_histo();
  histo.set_min(histogram.min);
  histo.set_max(histogram.max);
  histo.set_num(static_cast<double>(histogram.count));
  histo.set_sum(histogram.sum);
  histo.set_sum_squares(histogram.sum_squares);
  for (const double limit : histogram.limits) histo.add_bucket_limit(limit);
  for (const std::int64_t count : histogram.counts) histo.add_bucket(static_cast<double>(count));
  return state_->write(event, step);
}

Result<void> EventWriter::image(std::int64_t step, const std::string& tag, const Picture& image) {
  pb::Event event;
  auto& value = *event.mutable_summary()->add_value();
  value.set_tag(tag);
  auto& made = *value.mutable_image();
  made.set_width(static_cast<std::int32_t>(image.width));
  made.set_height(static_cast<std::int32_t>(image.height));
  made.set_colorspace(image.channels);
  made.set_encoded_image_string(to_png(image));
  return state_->write(event, step);
}

Result<void> EventWriter::text(std::int64_t step, const std::string& tag, const std::string& markdown) {
  pb::Event event;
  auto& value = *event.mutable_summary()->add_value();
  value.set_tag(tag);
  add_metadata(value, "text");
  auto& tensor = *value.mutable_tensor();
  tensor.set_dtype(pb::DT_STRING);
  tensor.mutable_tensor_shape()->add_dim()->set_size(1);
  tensor.add_string_val(markdown);
  return state_->write(event, step);
}

Result<void> EventWriter::graph(const graph::Graph& graph) {
  pb::Event event;
  event.set_graph_def(tensorboard_graph_def(graph));
  return state_->write(event, 0);
}

Result<void> EventWriter::begin_session(const HyperParameters& parameters,
                                        const std::vector<std::string>& metric_tags) {
  pb::HParamsPluginData experiment, start;
  for (const auto& [name, value] : parameters) {
    auto& info = *experiment.mutable_experiment()->add_hparam_infos();
    info.set_name(name);
    info.set_type(hparam_type(value));
    (*start.mutable_session_start_info()->mutable_hparams())[name] = hparam_value(value);
  }
  for (const auto& tag : metric_tags) experiment.mutable_experiment()->add_metric_infos()->mutable_name()->set_tag(tag);
  start.mutable_session_start_info()->set_start_time_secs(state_->now());
  if (auto written = state_->write_hparams("_hparams_/experiment", experiment); !written) return written;
  return state_->write_hparams("_hparams_/session_start_info", start);
}

Result<void> EventWriter::end_session(SessionEnd end) {
  pb::HParamsPluginData data;
  auto& info = *data.mutable_session_end_info();
  info.set_status(static_cast<pb::SessionEndInfo::Status>(end));
  info.set_end_time_secs(state_->now());
  return state_->write_hparams("_hparams_/session_end_info", data);
}

const fs::path& EventWriter::path() const { return state_->file.path(); }

}  // namespace starling::train
