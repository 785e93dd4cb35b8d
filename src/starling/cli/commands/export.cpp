#include <fmt/format.h>

#include <filesystem>
#include <string>

#include "starling/cli/commands.h"
#include "starling/cli/job_file.h"
#include "starling/train/job/prepared_job.h"
#include "starling/train/run/run_weights.h"

namespace starling::cli {
namespace {

struct ExportArguments {
  std::string run;
  std::string out;
  std::string job;
  std::string checkpoint = "latest";
  std::vector<std::string> set;
};

int run_export(const ExportArguments& options) {
  const train::Job job = load_job({job_of_run(options.run, options.job, "export"), options.set});
  const Checkpoint checkpoint = train::load_run_checkpoint(options.run, options.checkpoint).value();
  const train::PreparedJob prepared = prepare_job(job);
  train::load_weights(*prepared.net, checkpoint);
  const std::filesystem::path folder =
      options.out.empty() ? std::filesystem::path(options.run) / "model" : std::filesystem::path(options.out);
  export_model(prepared, folder, {{"step", checkpoint.step}}).value();
  fmt::print("{}\n", folder.string());
  return kOk;
}

}  // namespace
}  // namespace starling::cli

namespace starling {

void register_command_export(cli::Commands& into) {
  auto [app, o] = into.add<cli::ExportArguments>(
      "export", "Writes the trained network of a run as a saved model: graph, weights and signature, no code",
      {{"export runs/fashion_lenet -o lenet", "the newest checkpoint as the folder lenet/"},
       {"export runs/fashion_lenet --checkpoint best", "the best one, into model/ of the run"}},
      cli::run_export);
  app.add_option("run", o.run, "Folder of a run")->required();
  app.add_option("-o,--out", o.out, "Folder to write; nothing: model/ in the run");
  app.add_option("--checkpoint", o.checkpoint, "latest, best or the number of a step")->capture_default_str();
  app.add_option("--job", o.job, "Job file with the network of a run that a C++ program made; nothing: the run's own");
  cli::add_set_option(app, o.set);
}

}  // namespace starling
