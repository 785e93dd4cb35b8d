#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "starling/cli/commands.h"
#include "starling/cli/job_file.h"
#include "starling/cli/terminal/fit_table.h"
#include "starling/cli/terminal/help_width.h"

namespace starling::cli {
namespace {

struct PrintConfigArguments : JobFile {
  bool yaml = false;
  bool json = false;
  bool schema = false;
  bool doc = false;
};

// Every value in a row; without a terminal, long values stay whole and move what is behind them.
void print_values(const std::vector<train::JobValue>& values) {
  constexpr std::size_t kWidest = 40;
  const std::size_t columns = help_columns();
  train::TextTable table{.head = {"setting", "value", "from"}};
  std::size_t path_width = 0;
  std::size_t value_width = 0;
  for (const auto& value : values) {
    table.rows.push_back({value.path, value.value, value.where});
    path_width = std::max(path_width, value.path.size());
    value_width = std::max(value_width, std::min(kWidest, value.value.size()));
  }
  if (columns > 0) {
    const std::string text = fit_table(table, columns, {1});
    fmt::print("{}", text.substr(text.find('\n') + 1));
    return;
  }
  for (const auto& value : values)
    fmt::print("{:<{}}  {:<{}}  {}\n", value.path, path_width, value.value, value_width, value.where);
}

void print_json(const std::vector<train::JobValue>& values) {
  train::OrderedJson json = train::OrderedJson::object();
  for (const auto& value : values)
    json[value.path] = {{"value", train::OrderedJson::parse(value.value)}, {"from", value.where}};
  fmt::print("{}\n", json.dump(2));
}

int run_print_config(const PrintConfigArguments& options) {
  if (options.schema) {
    fmt::print("{}\n", train::job_schema().dump(2));
    return kOk;
  }
  if (options.doc) {
    fmt::print("{}", train::job_docs());
    return kOk;
  }
  if (options.job.empty()) throw UsageError("[print-config] expected a job file, or --schema or --doc, got none");
  const ConfigNode top = load_config(options);
  const train::Job job = read_whole_job(top);
  if (options.yaml) {
    fmt::print("{}", to_yaml(job));
  } else if (options.json) {
    print_json(job_values(job, top));
  } else {
    print_values(job_values(job, top));
  }
  return kOk;
}

}  // namespace
}  // namespace starling::cli

namespace starling {

void register_command_print_config(cli::Commands& into) {
  auto [app, o] = into.add<cli::PrintConfigArguments>(
      "print-config", "Prints every value of a job and where it came from: file:line:column, --set or default",
      {{"print-config job.yaml --set optimizer.lr=0.1", "every value and its origin"},
       {"print-config job.yaml --yaml", "the job with every value written out; it can be trained as it is"},
       {"print-config --schema > job.schema.json", "a JSON Schema, which editors check and complete jobs with"}},
      cli::run_print_config);
  app.add_option("job", o.job, "Job file (YAML), or the folder of a run");
  cli::add_set_option(app, o.set);
  auto* yaml = app.add_flag("--yaml", o.yaml, "As a job file");
  auto* json = app.add_flag("--json", o.json, "As JSON: {path: {value, from}}")->excludes(yaml);
  auto* schema =
      app.add_flag("--schema", o.schema, "The JSON Schema of all jobs instead")->excludes(yaml)->excludes(json);
  app.add_flag("--doc", o.doc, "All sections, kinds and options as Markdown tables instead")
      ->excludes(yaml)
      ->excludes(json)
      ->excludes(schema);
}

}  // namespace starling
