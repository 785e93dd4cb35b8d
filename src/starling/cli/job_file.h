#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "starling/train/job/job.h"

namespace starling::cli {

// A job file and the --set overrides of its values.
struct JobFile {
  std::string job;
  std::vector<std::string> set;
};

// Adds the positional argument `job` and --set.
void add_job_options(CLI::App& app, JobFile& file);
void add_set_option(CLI::App& app, std::vector<std::string>& set);

// Path of the job file; for a run folder, its job.yaml. Errors in the file are UsageErrors.
std::filesystem::path job_path(const std::string& job);
ConfigNode load_config(const JobFile& file);
train::Job load_job(const JobFile& file);
train::Job read_whole_job(const ConfigNode& top);  // throws JobErrors with all that is wrong, not only the first

}  // namespace starling::cli
