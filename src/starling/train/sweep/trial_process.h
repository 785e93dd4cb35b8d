#pragma once

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "starling/dist/launch/launcher/child.h"

namespace starling::train {

// Process of a trial; its output is appended to output.txt in the trial's folder. It dies with this process.
class TrialProcess {
 public:
  TrialProcess(const std::vector<std::string>& command, const std::filesystem::path& folder);

  bool ended();  // takes its output; never blocks
  // Reason of a failure: the last line written to standard error; empty if the trial ended well.
  std::string error() const;
  void stop() { child_.signal(SIGINT); }  // asks it to save and end
  void kill() { child_.signal(SIGKILL); }
  std::vector<int> descriptors() const { return {child_.output.get(), child_.error.get(), child_.ended.get()}; }

 private:
  void take(const UniqueFd& from, std::string* last);

  std::ofstream file_;
  dist::Child child_;
  std::string last_line_;
  std::string partial_;
};

}  // namespace starling::train
