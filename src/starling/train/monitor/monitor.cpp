#include "starling/train/monitor/monitor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>

#include "starling/base/version.h"
#include "starling/tensor/allocator.h"
#include "starling/train/monitor/json_log.h"
#include "starling/train/monitor/server_scalars.h"
#include "starling/train/monitor/step_details.h"
#include "starling/train/ranks/link.h"
#include "starling/train/ranks/report.h"

namespace starling {
namespace {

using nlohmann::ordered_json;

constexpr double kMegabyte = 1 << 20;

double unix_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<double>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count()) / 1000;
}

std::string own_host() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

// Epochs done, including the fraction of the current one.
double epochs_done(const Run& run) {
  const data::DataPosition& position = run.state().position;
  const std::int64_t samples = run.plan().samples_per_epoch;
  const double part = samples > 0 ? static_cast<double>(position.sample) / static_cast<double>(samples) : 0;
  return static_cast<double>(position.epoch) + part;
}

// Adds "test_" to metrics without a split prefix: plain names are for training values.
std::string log_name(const std::string& metric) {
  const bool told = metric.find("test_") != std::string::npos || metric.find("valid_") != std::string::npos;
  return told ? metric : "test_" + metric;
}
std::string tag_name(const std::string& metric) {
  const std::string name = log_name(metric);
  if (name.starts_with("test_")) return "test/" + name.substr(5);
  return name.starts_with("valid_") ? "valid/" + name.substr(6) : "test/" + name;
}

// Adds a scalar to a record under its tag: "servers/queue" as servers.queue, "codec/fc.weight/error" as
// codec."fc.weight".error.
void tell_scalar(ordered_json& values, const std::string& tag, double value) {
  const std::size_t first = tag.find('/'), last = tag.rfind('/');
  ordered_json& group = values[tag.substr(0, first)];
  if (tag.starts_with("codec/"))
    group[tag.substr(first + 1, last - first - 1)][tag.substr(last + 1)] = value;
  else
    group[tag.substr(first + 1)] = value;
}

// Accumulated values of the steps since the last record.
struct Window {
  double loss = 0;  // sum of loss · samples
  std::int64_t weight = 0;
  std::int64_t samples = 0;
  double seconds = 0;
  double wait = 0;
  std::int64_t skipped = 0;
  double lr = 0;             // learning rate of the last step
  double gradient_norm = 0;  // of the last step; 0: no clipping

  void add(const StepReport& step) {
    lr = step.lr;
    if (std::isfinite(step.gradient_norm)) gradient_norm = step.gradient_norm;  // not finite if the step was skipped
    samples += step.samples;
    seconds += step.seconds;
    wait += step.wait_seconds;
    skipped += step.skipped ? 1 : 0;
  }
  void add(const StepLoss& step) {
    loss += step.loss * static_cast<double>(step.samples);
    weight += step.samples;
  }
  double mean_loss() const { return weight > 0 ? loss / static_cast<double>(weight) : NAN; }
  double samples_per_s() const { return seconds > 0 ? static_cast<double>(samples) / seconds : 0; }
  double wait_share() const { return seconds > 0 ? wait / seconds : 0; }
};

class Monitor final : public Callback {
 public:
  Monitor(const MonitorOptions& options, MonitorContext context) : options_(options), context_(std::move(context)) {}
  ~Monitor() override {
    if (!running_) return;
    try {
      end_files(nullptr, train::SessionEnd::failure);  // ended by an exception
    } catch (...) {                                    // files are left without an end record
    }
  }

  std::string name() const override { return "monitor"; }
  void begin(Run& run) override;
  StepWants before(Run& run) override;
  void step(Run& run) override;
  void learned(Run&, const StepLoss& loss) override {
    if (running_) window_.add(loss);
  }
  bool looks_at_loss(std::int64_t step) const override {
    return running_ && (first_step_ || step % options_.scalars_every == 0);
  }
  void evaluated(Run& run) override;
  void end(Run& run) override;

  // Saved, so that a resumed run's next record covers the same steps as without interruption.
  nlohmann::json state() const override {
    return {{"loss", window_.loss},       {"weight", window_.weight},     {"samples", window_.samples},
            {"seconds", window_.seconds}, {"wait", window_.wait},         {"skipped", window_.skipped},
            {"lr", window_.lr},           {"norm", window_.gradient_norm}};
  }
  void restore(const nlohmann::json& state) override {
    window_ = {state.at("loss"), state.at("weight"),  state.at("samples"), state.at("seconds"),
               state.at("wait"), state.at("skipped"), state.at("lr"),      state.at("norm")};
  }

 private:
  void open(Run& run, const std::filesystem::path& folder);
  void introduce(Run& run);
  void show_first_step(Run& run);
  void write_window(Run& run);
  void add_ranks(Run& run, ordered_json& values, std::vector<train::Scalar>& scalars);
  void add_servers(Run& run, ordered_json& values, std::vector<train::Scalar>& scalars);
  void add_codecs(Run& run, ordered_json& values, std::vector<train::Scalar>& scalars);
  void tell_forms(Run& run, std::map<std::string, std::string> forms);
  void write_event(Run* run, const char* kind, const ordered_json& values);
  void write_scalars(Run& run, const std::vector<train::Scalar>& scalars);
  void end_files(Run* run, train::SessionEnd end);
  void tell(Run* run, const Result<void>& result);
  bool details_due(std::int64_t step) const {
    return asks_ && options_.histograms_every > 0 && step % options_.histograms_every == 0;
  }

  MonitorOptions options_;
  MonitorContext context_;
  std::optional<train::EventWriter> events_;
  std::optional<train::JsonLog> log_;
  std::optional<train::StepDetails> details_;
  Window window_;
  ordered_json when_;                         // step, epoch and seconds of the last event
  bool running_ = false;                      // files are open
  bool asks_ = false;                         // requests step details, equal on all ranks since they share a program
  std::vector<RankStats> ranks_;              // statistics at the last record
  dist::ps::Counters servers_;                // counters then
  dist::ps::Counters strategy_;               // of this rank's strategy
  std::map<std::string, std::string> forms_;  // of gradients, as told
  bool first_step_ = false;                   // the first step of a new run is still to come
  bool graph_shown_ = false;
  bool told_ = false;  // a failed write was reported
};

void Monitor::begin(Run& run) {
  const auto folder = context_.folder.empty() ? run.plan().folder : context_.folder;
  const bool fresh = run.state().step == 0;
  if (fresh) window_ = {};
  told_ = false;
  first_step_ = fresh;
  graph_shown_ = !fresh;
  asks_ = !folder.empty() && options_.tensorboard && train::has_event_writer();
  ranks_.clear();
  servers_.clear();
  strategy_.clear();
  forms_.clear();
  if (folder.empty()) return;
  const auto hosts = run.link() != nullptr ? run.link()->gather(own_host()) : std::vector{own_host()};
  if (run.plan().rank != 0) return;
  open(run, folder);
  running_ = events_ || log_;
  write_event(&run, "begin", {{"resumed", !fresh}, {"starling", kVersion}, {"hosts", hosts}});
  if (events_) introduce(run);
}

void Monitor::open(Run& run, const std::filesystem::path& folder) {
  const std::int64_t step = run.state().step;
  const auto resumed_at = step > 0 ? std::optional(step) : std::nullopt;
  if (options_.jsonl) {
    auto log = train::JsonLog::open(folder / train::kLogName, resumed_at, run.state().evaluated_step == step);
    if (log) {
      log_.emplace(std::move(*log));
    } else {
      tell(&run, log.failure());
    }
  }
  if (!options_.tensorboard) return;
  if (!train::has_event_writer()) {
    run.note(
        "no event files for TensorBoard: this build has no protobuf "
        "(libprotobuf-dev, protobuf-compiler)");
    return;
  }
  auto events = train::EventWriter::create(folder, {.resumed_at = resumed_at});
  if (events) {
    events_.emplace(std::move(*events));
  } else {
    tell(&run, events.failure());
  }
}

// Writes what is known before the first step.
void Monitor::introduce(Run& run) {
  if (!context_.parameters.empty()) {
    std::vector<std::string> tags = {"train/loss"};
    for (const auto& metric : run.plan().metrics) tags.push_back(tag_name(metric.name));
    tell(&run, events_->begin_session(context_.parameters, tags));
  }
  if (!first_step_) return;
  if (!context_.job.empty()) tell(&run, events_->text(0, "job", "```yaml\n" + context_.job + "\n```"));
  if (options_.histograms_every > 0) {
    for (const auto& [name, tensor] : run.net().named_parameters()) {
      if (tensor.impl()->storage) tell(&run, events_->histogram(0, "weights/" + name, train::histogram_of(tensor)));
    }
  }
}

StepWants Monitor::before(Run& run) {
  if (!details_due(run.state().step + 1)) return {};
  if (events_) details_.emplace(run.net());
  return {.gradients = true, .activations = !options_.activations.empty()};
}

void Monitor::step(Run& run) {
  if (!running_) return;
  window_.add(run.last());
  const std::int64_t step = run.state().step;
  if (details_ && events_) {
    for (const auto& written : details_->write(*events_, step, run.last().values, options_.activations))
      tell(&run, written);
    details_.reset();
  }
  if (first_step_ || step % options_.scalars_every == 0) write_window(run);
  if (events_) show_first_step(run);
  first_step_ = false;
}

// Writes the graph, known once a regular step was compiled, and samples of the first batch.
void Monitor::show_first_step(Run& run) {
  if (options_.graph && !graph_shown_ && run.program().programs() > 0) {
    tell(&run, events_->graph(run.program().graph()));
    graph_shown_ = true;
  }
  if (!first_step_ || options_.images == 0 || run.last().fields.empty()) return;
  const Tensor& samples = run.last().fields[0];
  if (train::looks_like_images(samples)) {
    tell(&run, events_->image(run.state().step, "samples", train::contact_sheet(samples, options_.images)));
  }
}

void Monitor::write_window(Run& run) {
  const auto bytes =
      allocator(run.net().parameters().empty() ? kCpu : run.net().parameters().front().device()).stats().live_bytes;
  ordered_json values = {{"loss", window_.mean_loss()},
                         {"lr", window_.lr},
                         {"samples_per_s", window_.samples_per_s()},
                         {"data_wait", window_.wait_share()},
                         {"memory", bytes}};
  std::vector<train::Scalar> scalars = {{"train/loss", window_.mean_loss()},
                                        {"train/lr", window_.lr},
                                        {"speed/samples_per_s", window_.samples_per_s()},
                                        {"speed/data_wait", window_.wait_share()},
                                        {"memory/megabytes", static_cast<double>(bytes) / kMegabyte}};
  if (window_.gradient_norm > 0) {
    values["gradient_norm"] = window_.gradient_norm;
    scalars.push_back({"train/gradient_norm", window_.gradient_norm});
  }
  if (window_.skipped > 0) values["skipped"] = window_.skipped;
  add_ranks(run, values, scalars);
  add_servers(run, values, scalars);
  add_codecs(run, values, scalars);
  write_event(&run, "train", values);
  write_scalars(run, scalars);
  window_ = {};
}

// Statistics of each rank since the last record, and the straggler.
void Monitor::add_ranks(Run& run, ordered_json& values, std::vector<train::Scalar>& scalars) {
  if (run.ranks().size() < 2) return;
  const auto since = train::between(ranks_, run.ranks());
  ranks_.assign(run.ranks().begin(), run.ranks().end());
  ordered_json& all = values["ranks"] = ordered_json::array();
  for (std::size_t rank = 0; rank < since.size(); ++rank) {
    all.push_back(train::to_json(static_cast<int>(rank), since[rank]));
    const auto add = [&](const char* what, double value) {
      scalars.push_back({fmt::format("ranks/{}/{}", rank, what), value});
    };
    for (const char* what : {"samples_per_s", "data_wait", "comm_wait"}) add(what, all.back().at(what).get<double>());
    if (since[rank].left_out > 0) add("left_out_share", since[rank].left_out_share());
    add("sent_megabytes", static_cast<double>(since[rank].sent) / kMegabyte);
    add("received_megabytes", static_cast<double>(since[rank].received) / kMegabyte);
    for (const auto& [op, seconds] : all.back().at("wait").items())
      scalars.push_back({fmt::format("ranks/{}/wait_{}", rank, op), seconds.get<double>()});
  }
  const auto slow = train::straggler(since);
  values["straggler"] = slow ? ordered_json(*slow) : ordered_json();
  scalars.push_back({"ranks/straggler", slow ? *slow : -1.0});
}

// Adds the work of parameter servers since the last record.
void Monitor::add_servers(Run& run, ordered_json& values, std::vector<train::Scalar>& scalars) {
  const dist::ps::Counters now = run.server_counters();
  const auto since = train::server_scalars(servers_, now);
  servers_ = now;
  tell_forms(run, train::chosen_forms(now));
  for (const auto& [tag, value] : since) {
    tell_scalar(values, tag, value);
    scalars.push_back({tag, value});
  }
}

// Adds what became of the gradients that this rank has coded since the last record.
void Monitor::add_codecs(Run& run, ordered_json& values, std::vector<train::Scalar>& scalars) {
  // Counters of strategies whose ranks are apart may change while others work.
  if (run.link() == nullptr || !run.link()->strategy().lockstep()) return;
  dist::ps::Counters now;
  for (const auto& [name, value] : run.link()->strategy().counters()) now.emplace_back(name, value);
  for (const auto& [tag, value] : train::traffic_scalars(strategy_, now)) {
    tell_scalar(values, tag, value);
    scalars.push_back({tag, value});
  }
  tell_forms(run, train::chosen_forms(now));
  strategy_ = std::move(now);
}

// Tells what codec: auto has chosen, and what it changes later on.
void Monitor::tell_forms(Run& run, std::map<std::string, std::string> forms) {
  std::map<std::string, std::vector<std::string>> weights;  // by form, of those that have changed
  for (const auto& [weight, form] : forms) {
    const auto before = forms_.find(weight);
    if (before == forms_.end() || before->second != form) weights[form].push_back(weight);
  }
  if (weights.empty()) return;
  std::string text;
  for (const auto& [form, names] : weights)
    text += fmt::format("{}{} for {}", text.empty() ? "" : "; ", form, fmt::join(names, ", "));
  run.note(fmt::format("codec auto, step {}: {}", run.state().step, text));
  write_event(&run, "codec", {{"forms", forms}});
  forms_ = std::move(forms);
}

void Monitor::evaluated(Run& run) {
  if (!running_) return;
  ordered_json values = ordered_json::object();
  std::vector<train::Scalar> scalars;
  for (const auto& [name, value] : run.evaluation().metrics) {
    values[log_name(name)] = value;
    scalars.push_back({tag_name(name), value});
  }
  write_event(&run, "eval", values);
  write_scalars(run, scalars);
  if (!events_) return;
  for (const auto& [name, table] : run.evaluation().tables)
    tell(&run, events_->text(run.state().step, tag_name(name), "```\n" + table + "\n```"));
}

void Monitor::write_scalars(Run& run, const std::vector<train::Scalar>& scalars) {
  if (events_ && !scalars.empty()) tell(&run, events_->scalars(run.state().step, scalars));
}

void Monitor::write_event(Run* run, const char* kind, const ordered_json& values) {
  if (!log_) return;
  if (run != nullptr)
    when_ = {{"step", run->state().step}, {"epoch", epochs_done(*run)}, {"seconds", run->state().seconds}};
  ordered_json event = {{"event", kind}};
  event.update(when_);
  event["time"] = unix_seconds();
  event.update(values);
  tell(run, log_->write(event));
}

void Monitor::end(Run& run) {
  if (!running_) return;
  const bool whole = !run.interrupted();
  if (whole && window_.samples > 0) write_window(run);  // otherwise the run may resume and continue the window
  end_files(&run, whole ? train::SessionEnd::success : train::SessionEnd::unknown);
}

void Monitor::end_files(Run* run, train::SessionEnd end) {
  const char* how = end == train::SessionEnd::success   ? "done"
                    : end == train::SessionEnd::failure ? "failed"
                                                        : "stopped";
  write_event(run, "end", {{"how", how}});
  if (events_ && !context_.parameters.empty()) tell(run, events_->end_session(end));
  events_.reset();
  log_.reset();
  details_.reset();
  running_ = false;
}

void Monitor::tell(Run* run, const Result<void>& result) {
  if (result || told_ || run == nullptr) return;
  told_ = true;
  run->note("warning: the monitor's files are incomplete, training goes on: " + result.error());
}

}  // namespace

CallbackPtr monitor(const MonitorOptions& options, MonitorContext context) {
  return std::make_shared<Monitor>(options, std::move(context));
}

}  // namespace starling
