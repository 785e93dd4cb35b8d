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

// Path of the job file; for a run folder, its job.yaml; for the name of a preset, the installed file. Errors in the
// file are UsageErrors.
std::filesystem::path job_path(const std::string& job);
ConfigNode load_config(const JobFile& file);
// Job of a run: `given` if it names one, else the run's own. A UsageError tells what to do where there is none, as for
// runs of C++ programs. `who` begins the message.
std::string job_of_run(const std::string& run, const std::string& given, const char* who);
train::Job load_job(const JobFile& file);
train::Job read_whole_job(const ConfigNode& top);  // throws JobErrors with all that is wrong, not only the first

}  // namespace starling::cli
