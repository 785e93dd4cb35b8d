#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "starling/train/job.h"

namespace starling::cli {

// A job file and what replaces its values.
struct JobFile {
  std::string job;
  std::vector<std::string> set;
};

// The positional argument `job` and --set.
void add_job_options(CLI::App& app, JobFile& file);
void add_set_option(CLI::App& app, std::vector<std::string>& set);

// The folder of a run stands for the job.yaml in it. What is wrong with the file is the user's fault.
std::filesystem::path job_path(const std::string& job);
ConfigNode load_config(const JobFile& file);
Job load_job(const JobFile& file);

}  // namespace starling::cli
