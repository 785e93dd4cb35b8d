#include "starling/cli/run_model.h"

#include <fmt/format.h>

#include <cstdlib>
#include <system_error>

#include "starling/base/error.h"
#include "starling/base/file.h"
#include "starling/cli/job_file.h"
#include "starling/train/job/prepared_job.h"
#include "starling/train/run/run_weights.h"

namespace starling::cli {
namespace {

namespace fs = std::filesystem;

// A new folder that is removed at the end of the scope.
class ScratchFolder {
 public:
  ScratchFolder() : path_((fs::temp_directory_path() / "starling-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr)
      fail("[predict] expected to make the folder {}, got: {}", path_, errno_text());
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  fs::path path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

bool has_checkpoints(const fs::path& run) {
  return fs::exists(run / "job.yaml") && !CheckpointFolder(run / "checkpoints").steps().empty();
}

SavedModel model_of_checkpoint(const fs::path& run, int threads) {
  const Checkpoint checkpoint = train::load_run_checkpoint(run).value();
  const train::PreparedJob prepared = prepare_job(load_job({run.string(), {}}));
  train::load_weights(*prepared.net, checkpoint);
  const ScratchFolder scratch;
  export_model(prepared, scratch.path() / "model", {{"step", checkpoint.step}}).value();
  fmt::print(stderr, "starling: {} has no saved model yet: taking its checkpoint of step {}\n", run.string(),
             checkpoint.step);
  return SavedModel::load(scratch.path() / "model", {.threads = threads}).value();
}

}  // namespace starling::cli
