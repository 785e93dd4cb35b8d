#include <fmt/format.h>

#include <filesystem>
#include <string>

#include "starling/base/file/file.h"
#include "starling/cli/commands.h"
#include "starling/cli/job_file.h"
#include "starling/cli/terminal/tell.h"
#include "starling/train/job/prepared_job.h"
#include "starling/train/report/run_report.h"
#include "starling/train/run/run_weights.h"

namespace starling::cli {
namespace {

namespace fs = std::filesystem;

struct ReportArguments {
  std::string run;
  std::string out;
  std::string checkpoint = "latest";
  std::string job;
  std::vector<std::string> set;
  std::size_t wrong = 24;
  bool no_data = false;
};

// Evaluates the run's network; a page without it is still worth having, so what is missing is told on the page.
void examine_run(const ReportArguments& options, train::RunReport& report) {
  if (options.job.empty() && report.job.empty()) {
    report.notes.emplace_back(
        "no confusion matrix: the run was made by a C++ program and has no job.yaml (--job names a job with the same "
        "network)");
    return;
  }
  const auto examined = attempt([&] {
    const train::PreparedJob prepared =
        prepare_job(load_job({options.job.empty() ? options.run : options.job, options.set}));
    const Checkpoint checkpoint = train::load_run_checkpoint(options.run, options.checkpoint).value();
    train::load_weights(*prepared.net, checkpoint);
    report.examined = examine(prepared, options.wrong);
    report.examined_with = fmt::format("checkpoint of step {}", checkpoint.step);
  });
  if (!examined) report.notes.push_back("no confusion matrix: " + examined.error());
}

int run_report(const ReportArguments& options) {
  train::RunReport report = as_usage([&] { return train::read_report(options.run); });
  if (!options.no_data) examine_run(options, report);
  const fs::path file = options.out.empty() ? fs::path(options.run) / "report.html" : fs::path(options.out);
  write_file_atomically(file, to_html(report)).value();
  for (const auto& note : report.notes) tell(note);
  fmt::print("{}\n", file.string());
  return kOk;
}

}  // namespace
}  // namespace starling::cli

namespace starling {

void register_command_report(cli::Commands& into) {
  auto [app, o] = into.add<cli::ReportArguments>(
      "report", "Writes one HTML page about a run: curves, confusion matrix, what went wrong, when and where it ran",
      {{"report runs/fashion_lenet", "writes report.html into the run's folder; any browser shows it, without network"},
       {"report runs/fashion_lenet --no-data -o lenet.html", "without evaluating the network, to another place"}},
      cli::run_report);
  app.add_option("run", o.run, "Folder of a run")->required();
  app.add_option("-o,--out", o.out, "HTML file to write; nothing: report.html in the run");
  app.add_option("--checkpoint", o.checkpoint, "latest, best or the number of a step")->capture_default_str();
  app.add_option("--job", o.job, "Job file with the network and data; nothing: the run's own");
  cli::add_set_option(app, o.set);
  app.add_option("--wrong", o.wrong, "Wrong examples to show")->check(CLI::Range(0, 1000))->capture_default_str();
  app.add_flag("--no-data", o.no_data, "Does not read the data: no confusion matrix, no examples");
}

}  // namespace starling
