#include "starling/train/run_folder.h"

#include <fmt/format.h>

#include <system_error>

#include "starling/base/error.h"
#include "starling/base/file.h"

namespace starling {
namespace {

namespace fs = std::filesystem;

}  // namespace

RunFolder::RunFolder(const TrainJob& job)
    : folder_(job.folder), resume_(job.resume), checkpoints_(job.folder / "checkpoints", static_cast<int>(job.keep)) {}

std::optional<Checkpoint> RunFolder::newest(const std::function<void(const std::string&)>& tell) {
  if (checkpoints_.steps().empty()) return std::nullopt;
  if (resume_ == Resume::none) {
    step_aside(tell);
    return std::nullopt;
  }
  auto loaded = checkpoints_.load_latest();
  for (const auto& reason : loaded.value().skipped) tell("warning: skipped a checkpoint: " + reason);
  return std::move(loaded.value().checkpoint);
}

// A later resume must not find steps of the old run, and nothing of it is to be lost either.
void RunFolder::step_aside(const std::function<void(const std::string&)>& tell) const {
  for (int number = 1;; ++number) {
    const fs::path aside = folder_ / fmt::format("checkpoints-before-{}", number);
    std::error_code error;
    if (fs::exists(aside, error)) continue;
    fs::rename(folder_ / "checkpoints", aside, error);
    check(!error, "[train] expected to move the checkpoints of an earlier run to {}, got: {}", aside.string(),
          error.message());
    tell(fmt::format("starting over; the checkpoints of an earlier run are now in {}", aside.string()));
    return;
  }
}

Result<void> RunFolder::write_job(const Job& job) const {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) return failure("[train] expected to create {}, got: {}", folder_.string(), error.message());
  return write_file_atomically(folder_ / "job.yaml", to_yaml(job));
}

}  // namespace starling
