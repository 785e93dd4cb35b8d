#include "starling/train/job/job_check.h"

#include <algorithm>

#include "starling/base/error.h"
#include "starling/train/job/job_codec.h"
#include "starling/train/job/job_error.h"
#include "starling/train/job/job_layout.h"
#include "starling/train/job/job_procedure.h"
#include "starling/train/job/job_servers.h"
#include "starling/train/run/run_folder.h"

namespace starling::train {
namespace {

constexpr int kMostTries = 10;  // networks made anew without a wrong option

// Runs parts of the check and keeps what they complain of.
class Findings {
 public:
  Findings(const Job& job, JobCheck& check) : job_(job), check_(check) {}

  // True if it succeeded. `path` is where errors that name no place belong.
  template <class F>
  bool attempt(const std::string& path, F&& f) {
    try {
      f();
      return true;
    } catch (const JobError& error) {
      add(error.what());
      failed_at_ = error.path();
    } catch (const ConfigError& error) {
      add(error.what());
      failed_at_ = path;
    } catch (const Error& error) {
      add(placed(job_, path, error.what()));
      failed_at_ = path;
    }
    return false;
  }
  const std::string& failed_at() const { return failed_at_; }  // key of the last problem

 private:
  void add(const std::string& message) {
    auto& all = check_.problems;
    if (std::find(all.begin(), all.end(), message) == all.end()) all.push_back(message);
  }

  const Job& job_;
  JobCheck& check_;
  std::string failed_at_;
};

// Takes a wrong option of the network back, so that the data decides it; false if that was not what failed.
bool take_back(Job& job, const std::string& path) {
  constexpr std::string_view kModel = "model.";
  if (!job.model.net || !path.starts_with(kModel)) return false;
  return std::erase(job.model.given, path.substr(kModel.size())) > 0;
}

void prepare(Job job, const JobData& data, Findings& findings, JobCheck& check) {
  for (int tries = 0; tries < kMostTries; ++tries) {
    if (findings.attempt("model", [&] { check.prepared = prepare_job(job, data); })) return;
    if (!take_back(job, findings.failed_at())) return;
  }
}

// Every server has to hold something.
void expect_keys(const PreparedJob& prepared) {
  const auto servers = static_cast<int>(prepared.job.distribute.server_count());
  if (servers == 0) return;
  const auto optimizer = make_optimizer(prepared.job, *prepared.net);
  dist::TrainedState state{.rule = optimizer.get()};
  for (auto& [name, tensor] : prepared.net->named_parameters()) state.weights.push_back({name, tensor});
  static_cast<void>(dist::ps::KeyTable(tensors_of(prepared.job, state), servers));
}

}  // namespace

JobCheck check_job(const Job& job) {
  JobCheck check;
  Findings findings(job, check);
  findings.attempt("train.folder", [&] {
    const std::string obstacle = folder_obstacle(job.train.folder);
    if (!obstacle.empty()) refuse_job(job, "train.folder", folder_refusal(job.train.folder, obstacle));
  });
  if (job.schedule.kind) findings.attempt("schedule", [&] { static_cast<void>(job.schedule.kind->make()); });
  std::optional<JobData> data;
  findings.attempt("data", [&] { data = load_job_data(job); });
  if (!data) return check;
  prepare(job, *data, findings, check);
  if (!check.prepared) return check;
  const PreparedJob& prepared = *check.prepared;
  findings.attempt("data.drop_last", [&] { expect_batches(prepared); });
  findings.attempt("optimizer", [&] { static_cast<void>(make_optimizer(prepared.job, *prepared.net)); });
  findings.attempt("distribute.servers", [&] { expect_keys(prepared); });
  for (const auto& [key, metric] : watched_metrics(job.train))
    findings.attempt(key, [&, &key = key, &metric = metric] { static_cast<void>(told_name(prepared, metric, key)); });
  if (findings.attempt("model", [&] { check.shapes = trace_shapes(prepared); })) {
    check.notes = procedure_notes(prepared);
    findings.attempt("train.metrics", [&] { expect_metrics(prepared, check.shapes); });
    const bool fits = findings.attempt("distribute", [&] { check_patterns(prepared); });
    for (std::string& note : fits ? codec_notes(prepared) : std::vector<std::string>())
      check.notes.push_back(std::move(note));
  }
  findings.attempt("distribute.layout", [&] {
    check_layout(prepared);
    for (std::string& note : layout_notes(prepared)) check.notes.push_back(std::move(note));
  });
  return check;
}

}  // namespace starling::train
