#include "starling/cli/job_file.h"

#include "starling/cli/cli.h"

namespace starling::cli {

void add_set_option(CLI::App& app, std::vector<std::string>& set) {
  app.add_option("--set", set, "Replaces a value of the job: optimizer.lr=0.1; may be given again")
      ->allow_extra_args(false);
}

void add_job_options(CLI::App& app, JobFile& file) {
  app.add_option("job", file.job, "Job file (YAML), or the folder of a run")->required();
  add_set_option(app, file.set);
}

std::filesystem::path job_path(const std::string& job) {
  const std::filesystem::path path(job);
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored) ? path / "job.yaml" : path;
}

ConfigNode load_config(const JobFile& file) {
  return as_usage([&] { return ConfigNode::load(job_path(file.job), file.set); });
}

train::Job load_job(const JobFile& file) { return read_whole_job(load_config(file)); }

train::Job read_whole_job(const ConfigNode& top) {
  auto errors = train::job_errors(top);
  if (!errors.empty()) throw JobErrors(std::move(errors));
  return as_usage([&] { return train::read_job(top); });
}

}  // namespace starling::cli
