#pragma once

#include <string>
#include <utility>

#include "starling/train/job/job.h"
#include "starling/train/run/refusal.h"

namespace starling::train {

// Thrown where parts of a job do not fit each other or its data. path() is the key to change: "model.classes".
class JobError : public Refusal {
 public:
  JobError(std::string path, const std::string& message) : Refusal(message), path_(std::move(path)) {}
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Thrown on a rank whose job has a problem that rank 0 tells for all.
class ToldByFirstRank : public Refusal {
 public:
  using Refusal::Refusal;
};

// Name of a job file without folder and ending, from the place of a value in it; "job" if it came from no file.
std::string job_name(const ConfigNode& top);

// Place of a value in the job file: file:line:column of the deepest given key on the path, the file alone if not even
// the section is given. Empty for a job that was not read from a file.
std::string job_place(const Job& job, const std::string& path);

// Message that begins with the place of `path` in the job file, if there is one.
std::string placed(const Job& job, const std::string& path, const std::string& message);

// Throws a JobError that begins with the place of `path`.
[[noreturn]] void refuse_job(const Job& job, const std::string& path, const std::string& message);

}  // namespace starling::train
