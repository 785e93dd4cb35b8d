#include "starling/cli/run_model.h"

#include <fmt/format.h>

#include <cstdlib>
#include <system_error>

#include "starling/base/error.h"
#include "starling/base/file/file.h"
#include "starling/cli/job_file.h"
#include "starling/cli/terminal/tell.h"
#include "starling/data/tokenizers/tokenizer.h"
#include "starling/train/job/job_data.h"
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

// Step of the newest checkpoint; nullopt: there is none to take.
std::optional<std::int64_t> newest_step(const fs::path& run) {
  if (!fs::exists(run / "job.yaml")) return std::nullopt;
  const auto steps = CheckpointFolder(run / "checkpoints").steps();
  return steps.empty() ? std::nullopt : std::optional(steps.back());
}

// True if checkpoints were written after the saved model, and the newest holds another step.
bool is_newer(const fs::path& run, std::int64_t step, const ModelSignature& saved) {
  const auto& about = saved.about;
  if (!about.is_object() || !about.contains("step") || about["step"] == step) return false;
  std::error_code error;
  const auto checkpoint = fs::last_write_time(run / "checkpoints", error);
  const auto model = fs::last_write_time(run / "model" / "model.json", error);
  return !error && checkpoint > model;
}

SavedModel model_of_checkpoint(const fs::path& run, int threads, const std::string& why) {
  const Checkpoint checkpoint = train::load_run_checkpoint(run).value();
  const train::PreparedJob prepared = prepare_job(load_job({run.string(), {}}));
  train::load_weights(*prepared.net, checkpoint);
  const ScratchFolder scratch;
  export_model(prepared, scratch.path() / "model", {{"step", checkpoint.step}}).value();
  tell(fmt::format("{} {}: taking its checkpoint of step {}", run.string(), why, checkpoint.step));
  return SavedModel::load(scratch.path() / "model", {.threads = threads}).value();
}

}  // namespace

std::optional<SavedModel> model_of_run(const fs::path& run, int threads) {
  const auto step = newest_step(run);
  if (!is_saved_model(run / "model")) {
    if (!step) return std::nullopt;
    return model_of_checkpoint(run, threads, "has no saved model yet");
  }
  SavedModel saved = SavedModel::load(run / "model", {.threads = threads}).value();
  if (!step || !is_newer(run, *step, saved.signature())) return saved;
  const std::string of = saved.signature().about["step"].dump();
  auto newer = attempt(
      [&] { return model_of_checkpoint(run, threads, fmt::format("was trained on since its model of step {}", of)); });
  if (newer) return std::move(*newer);
  tell(fmt::format("warning: {} was trained on to step {}, which cannot be read: taking its model of step {}: {}",
                   run.string(), *step, of, newer.error()));
  return saved;
}

data::Reading reading_of(const ModelSignature& signature) {
  data::Reading reading{signature.raw, nullptr, signature.class_names};
  if (!signature.tokenizer.is_null())
    reading.tokenizer = data::parse_tokenizer(signature.tokenizer.dump(), "model.json");
  return reading;
}

data::Reading reading_of_run(const fs::path& run, const train::Job& job) {
  if (is_saved_model(run / "model")) return reading_of(SavedModel::load(run / "model").value().signature());
  const data::DataSplits own = load_job_data(job).splits;
  return {own.raw, own.tokenizer, own.class_names};
}

}  // namespace starling::cli
