#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "starling/train/run/run_lock.h"
#include "starling/train/sweep/sweep_plan.h"

namespace starling::train {

// Folder of a sweep: sweep.json lists the trials and the settings that all of them share, trial-001, … are their runs.
// A sweep that is started again finds its trials by their settings, so that values can be added to it.
class SweepFolder {
 public:
  // Locks the folder against other sweeps and reads sweep.json. Throws Refusal if it holds a sweep over another job:
  // `shared` are the settings, by path, that all trials have in common.
  SweepFolder(std::filesystem::path folder, std::map<std::string, std::string> shared);

  // Folder of the trial's run; a new trial gets the next number. Written to sweep.json at once. Trials are the same if
  // their values are, in whatever order. `own` are the settings, by path, that the trial's job does not share with the
  // others and that no value names, such as the options of a kind that varies. Throws Refusal if a known trial had
  // others.
  std::filesystem::path of(const Trial& trial, const std::map<std::string, std::string>& own = {});

  const std::filesystem::path& path() const { return folder_; }

 private:
  struct Known {
    std::map<std::string, OrderedJson> values{};  // by path: the order in which they were named does not count
    std::map<std::string, std::string> own{};
  };
  void write() const;

  std::filesystem::path folder_;
  std::map<std::string, std::string> shared_;
  std::vector<Known> trials_;
  RunLock lock_;
};

}  // namespace starling::train
