#include "starling/cli/job_file.h"

#include <fmt/format.h>

#include "starling/base/config/nearest.h"
#include "starling/cli/cli.h"
#include "starling/cli/shipped_jobs.h"
#include "starling/train/runs/run_record.h"

namespace starling::cli {

void add_set_option(CLI::App& app, std::vector<std::string>& set) {
  app.add_option("--set", set, "Replaces a value of the job: optimizer.lr=0.1; may be given again")
      ->allow_extra_args(false);
}

void add_job_options(CLI::App& app, JobFile& file) {
  app.add_option("job", file.job, "Job file (YAML), the folder of a run, or a preset by name")->required();
  add_set_option(app, file.set);
}

namespace {

// Jobs in the folder of a path, as they would be written in its place.
std::vector<std::string> jobs_beside(const std::filesystem::path& path) {
  std::vector<std::string> jobs;
  std::error_code error;
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const auto ending = at->path().extension();
    if (ending == ".yaml" || ending == ".yml") jobs.push_back((path.parent_path() / at->path().filename()).string());
  }
  return jobs;
}

[[noreturn]] void refuse_missing(const std::filesystem::path& path) {
  const std::string near = nearest(path.string(), jobs_beside(path));
  throw UsageError(fmt::format("[job] expected a job file, got {}, which is not there{}", path.string(),
                               near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near)));
}

}  // namespace

std::filesystem::path job_path(const std::string& job) {
  std::filesystem::path path(job);
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return path / "job.yaml";
  if (std::filesystem::exists(path, ignored)) return path;
  std::filesystem::path shipped = shipped_job(job);
  if (!shipped.empty()) return shipped;
  if (path.has_parent_path() || path.has_extension()) refuse_missing(path);
  // A bare word is more likely a misspelt preset than a file.
  const std::string near = nearest(job, shipped_job_names());
  throw UsageError(
      fmt::format("[job] expected a job file, the folder of a run or the name of a preset, got '{}'{}; `starling "
                  "systems` lists the "
                  "presets",
                  job, near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near)));
}

ConfigNode load_config(const JobFile& file) {
  return as_usage([&] { return ConfigNode::load(job_path(file.job), file.set, ConfigNode::Repeated::keep); });
}

std::string job_of_run(const std::string& run, const std::string& given, const char* who) {
  if (!given.empty()) return given;
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::path(run) / "job.yaml", ignored)) return run;
  if (train::is_run_folder(run))
    throw UsageError(fmt::format(
        "[{}] expected a run with a job.yaml, got {}, which a C++ program made (give --job JOB.yaml, a job with the "
        "same network)",
        who, run));
  const bool is_job =
      std::filesystem::is_regular_file(run, ignored) && std::filesystem::path(run).extension() == ".yaml";
  throw UsageError(fmt::format("[{}] expected the folder of a run or of a saved model, got {}{}", who, run,
                               is_job ? fmt::format(" (a job: `starling train {}` makes a run of it)", run) : ""));
}

train::Job load_job(const JobFile& file) { return read_whole_job(load_config(file)); }

train::Job read_whole_job(const ConfigNode& top) {
  auto errors = train::job_errors(top);
  if (!errors.empty()) throw JobErrors(std::move(errors));
  return as_usage([&] { return train::read_job(top); });
}

}  // namespace starling::cli
