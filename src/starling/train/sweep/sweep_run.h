#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "starling/train/runs/run_record.h"
#include "starling/train/sweep/sweep_folder.h"

namespace starling::train {

struct SweepOptions {
  SweepJob sweep{};
  std::int64_t epochs = 1;  // of the job
  std::string metric{};     // reported name: test_accuracy
  bool higher_is_better = true;
  int workers = 1;  // trials at the same time, a process each
  // Command that trains one trial in a folder until it has done so many epochs, or the job's; it resumes a run that is
  // already there.
  std::function<std::vector<std::string>(const Trial& trial, const std::filesystem::path& folder, std::int64_t epochs)>
      command{};
  // Settings of the trial's job that SweepFolder::of compares; null: none.
  std::function<std::map<std::string, std::string>(const Trial& trial)> own{};
  std::function<bool()> stop{};                         // polled; true: end the trials cleanly and return
  std::chrono::milliseconds grace{60'000};              // time for trials to save and end after a stop; then killed
  std::function<void(const std::string& line)> tell{};  // told of trials that begin and end
};

struct TrialResult {
  Trial trial{};
  std::filesystem::path folder{};
  RunRecord record{};
  double value = 0;      // of the metric where the trial ended; NaN: none
  std::string error{};   // why it failed; empty: it did not
  bool dropped = false;  // by halving, after a stage that it finished
};

struct SweepResult {
  std::vector<TrialResult> trials{};  // the best first: those that went further, then by value; failed ones last
  bool interrupted = false;
};

// Runs all trials, `workers` at a time. Trials that are done already are not run again; one that was interrupted
// resumes; one that fails is told and left out. Output of a trial goes to output.txt in its folder.
SweepResult run_sweep(const SweepOptions& options, SweepFolder& folder);

}  // namespace starling::train
