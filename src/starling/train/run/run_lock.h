#pragma once

#include <filesystem>

namespace starling::train {

// Lock on a run folder against other processes and other runs of this process; released when the process ends, however
// it does.
class RunLock {
 public:
  // Creates and locks the folder. Throws if another holder keeps it for a second (a process just killed may need that
  // long to exit), or if opening or locking it fails for another reason. Holds nothing if the folder cannot be created
  // or the file system has no locks. Removes what killed runs have left half written in it (model.tmp-*,
  // job.yaml.tmp-*, summary.json.tmp-*); of what was begun elsewhere, on another host or before this one was started
  // again, what no process has written to for a day.
  explicit RunLock(const std::filesystem::path& folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  // True if a run holds the lock of this folder now. Takes the lock for a moment to find out, which a run that begins
  // at that moment waits for.
  static bool held_by_other(const std::filesystem::path& folder);

 private:
  int folder_ = -1;
};

}  // namespace starling::train
