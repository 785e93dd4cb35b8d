#include "starling/train/lr_find/lr_find.h"

#include <fmt/format.h>

#include <iostream>
#include <string>

#include "starling/base/file/file.h"
#include "starling/cli/commands.h"
#include "starling/cli/job_file.h"
#include "starling/cli/terminal/tell.h"
#include "starling/train/loop/interrupt.h"
#include "starling/train/monitor/plot/svg_plot.h"

namespace starling::cli {
namespace {

struct LrFindArguments : JobFile {
  train::LrFindOptions find;
  std::string out;
};

int run_lr_find(const LrFindArguments& options) {
  if (options.find.max <= options.find.min)
    throw UsageError(
        fmt::format("[lr-find] expected --max above --min, got {} and {}", options.find.max, options.find.min));
  const train::PreparedJob prepared = prepare_job(load_job(options));
  train::LrFindOptions how = options.find;
  how.stop = stop_on_signals();
  const train::LrFound found = find_lr(prepared, how);
  if (found.interrupted) throw Interrupted("[lr-find] interrupted; nothing was written");
  std::cout << lr_table(found);
  if (found.diverged && !found.points.empty())
    fmt::print("the loss exploded at a learning rate of {:.2g}, step {}\n", found.points.back().lr,
               found.points.size());
  if (!options.out.empty()) {
    write_file_atomically(options.out, to_svg(lr_figure(found))).value();
    fmt::print("{}\n", options.out);
  }
  if (!found.suggested) {
    tell(
        fmt::format("no rate to suggest: the loss fell at none of them (try --max {:g}, --min {:g} or --steps "
                    "{})",
                    how.max * 10, how.min / 10, how.steps * 2));
    return kFailure;
  }
  fmt::print("suggested: --set optimizer.lr={:.2g}\n", *found.suggested);
  return kOk;
}

}  // namespace
}  // namespace starling::cli

namespace starling {

void register_command_lr_find(cli::Commands& into) {
  auto [app, o] = into.add<cli::LrFindArguments>(
      "lr-find", "Finds a learning rate for a job: trains some steps with a rate that grows until the loss explodes",
      {{"lr-find job.yaml", "a table of rates and losses, and the rate at which the loss falls fastest"},
       {"lr-find job.yaml --set optimizer.name=adam --max 1 -o rates.svg", "for another optimizer, with a picture"}},
      cli::run_lr_find);
  cli::add_job_options(app, o);
  app.add_option("--min", o.find.min, "Learning rate of the first step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--max", o.find.max, "Learning rate of the last step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--steps", o.find.steps, "Steps from one to the other")
      ->check(CLI::Range(20, 100'000))
      ->capture_default_str();
  app.add_option("-o,--out", o.out, "SVG file to write; nothing: no picture");
}

}  // namespace starling
