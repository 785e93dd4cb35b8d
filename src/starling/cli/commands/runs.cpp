#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iostream>
#include <string>
#include <vector>

#include "starling/cli/commands.h"
#include "starling/cli/terminal/fit_runs.h"
#include "starling/cli/terminal/help_width.h"
#include "starling/cli/terminal/tell.h"
#include "starling/train/runs/run_table.h"

namespace starling {
namespace {

using cli::as_usage;

struct RunsArguments {
  std::string folder = "runs";
  train::RunTableOptions table;
  bool json = false;
  bool csv = false;
};

// Columns that the terminal has no room for are named below the table; those that were asked for go last.
void print_fitting(train::RunTable& table, std::size_t columns, bool chosen) {
  const auto left_out = cli::fit_runs(table, columns, chosen);
  std::cout << to_text(table);
  for (const auto& [run, why] : table.failures)
    std::cout << cli::fitted(fmt::format("{} failed: {}", run, why), 2) << "\n";
  if (!left_out.empty())
    std::cout << cli::fitted(fmt::format("no room for {}; {}--csv has all", fmt::join(left_out, ", "),
                                         chosen ? "" : "--settings chooses, "),
                             0)
              << "\n";
  if (!table.of_some.empty())
    std::cout << cli::fitted(
                     fmt::format("{} settings belong to some of the runs only, as {}; --settings NAME,NAME shows "
                                 "them, --csv has all",
                                 table.of_some.size(), table.of_some.front()),
                     0)
              << "\n";
}

int run_runs(RunsArguments options) {
  options.table.all_settings = options.json || options.csv;  // programs choose for themselves
  const auto folders = as_usage([&] { return train::find_runs(options.folder); });
  std::vector<train::RunRecord> runs;
  for (const auto& folder : folders) {
    runs.push_back(train::read_run(folder));
    if (!runs.back().problem.empty())
      cli::tell(fmt::format("{}: not all could be read: {}", folder.string(), runs.back().problem));
  }
  if (runs.empty()) {
    cli::tell(fmt::format("no runs in {}: starling train makes them in train.folder of its job", options.folder));
  }
  train::RunTable table =
      runs.empty() ? train::RunTable{} : as_usage([&] { return make_run_table(runs, options.folder, options.table); });
  const bool none_match = !runs.empty() && table.rows.empty();
  if (none_match)
    cli::tell(fmt::format("no run matches {}, of {} in {}", fmt::join(options.table.filters, " and "), runs.size(),
                          options.folder));
  if (options.json) {
    std::cout << to_json(table).dump(2) << "\n";
  } else if (options.csv && !runs.empty()) {
    std::cout << to_csv(table);
  } else if (!runs.empty() && !none_match) {
    print_fitting(table, cli::help_columns(), !options.table.settings.empty());
  }
  return cli::kOk;
}

}  // namespace

void register_command_runs(cli::Commands& into) {
  auto [app, o] = into.add<RunsArguments>(
      "runs", "Lists the runs below a folder: settings that differ, metrics, times and how they ended",
      {{"runs", "all runs below runs/"},
       {"runs runs/sweep --sort test_accuracy --descending", "the best first"},
       {"runs runs --filter 'optimizer.lr>=0.01' --filter state=finished --csv", "some of them, for a spreadsheet"}},
      run_runs);
  app.add_option("folder", o.folder, "Folder with runs, at any depth")->capture_default_str();
  app.add_option("--sort", o.table.sort, "Column or setting to sort by, as lr, test_accuracy, seconds, started");
  app.add_flag("--descending", o.table.descending, "Sorts from large to small");
  app.add_option("--filter", o.table.filters,
                 "Shows runs for which this holds: lr>0.01, state=finished, model.name!=mlp*; may be given again")
      ->allow_extra_args(false);
  app.add_option("--settings", o.table.settings,
                 "Settings to show, separated by commas; nothing: those in which the runs differ")
      ->delimiter(',')
      ->allow_extra_args(false);
  auto* json = app.add_flag("--json", o.json, "An array of JSON objects");
  app.add_flag("--csv", o.csv, "Comma-separated values")->excludes(json);
}

}  // namespace starling
