#include <fmt/format.h>

#include <cstdio>
#include <string>

#include "starling/cli/commands.h"
#include "starling/cli/job_file.h"
#include "starling/cli/terminal/tell.h"
#include "starling/dist/strategy/servers/server_rule.h"
#include "starling/train/job/job_check.h"

namespace starling::cli {
namespace {

struct ValidateArguments : JobFile {
  bool no_data = false;
};

std::string describe_data(const train::PreparedJob& prepared) {
  const data::DataSplits& splits = prepared.data.splits;
  const std::string size = splits.train ? fmt::format("{} samples", splits.train->size()) : "a stream of samples";
  std::string fields;
  for (const auto& type : prepared.data.fields) fields += (fields.empty() ? "" : ", ") + to_string(type);
  if (!prepared.data.conversions.empty()) fields += " (converted to f32 where the network begins)";
  return fmt::format(
      "{}, each {}{}", size, fields,
      prepared.data.evaluated.empty() ? ", nothing to evaluate with" : ", evaluated on " + prepared.data.evaluated);
}

std::int64_t steps_an_epoch(const train::Job& job, std::int64_t samples) {
  const auto ceil_div = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const std::int64_t batch = job.data.load.batch;
  const auto rule = dist::server_rule(job.distribute.strategy.make());
  if (rule && rule->procedure) return 1;
  return ceil_div(job.data.load.drop_last ? samples / batch : ceil_div(samples, batch), job.train.accumulate);
}

int check_with_data(const ValidateArguments& options, const train::Job& job) {
  const train::JobCheck check = check_job(job);
  for (const auto& message : check.problems) tell(message);
  if (!check.ok()) return kUsage;
  const train::PreparedJob& prepared = *check.prepared;
  const train::StepShapes& shapes = check.shapes;
  for (const auto& note : prepared.data.splits.notes) tell(fmt::format("note: {}", note));
  for (const auto& note : check.notes) tell(fmt::format("note: {}", note));
  fmt::print("{}: ok\n", options.job);
  fmt::print("data        {}\n", describe_data(prepared));
  fmt::print("model       {}, {} parameters{}\n",
             prepared.job.model.net ? prepared.job.model.net->name : std::string("declared"),
             prepared.net->parameter_count(),
             shapes.prediction.shape.rank() > 0 ? ", gives " + to_string(shapes.prediction) : "");
  fmt::print("objective   {}\n", prepared.objective_name);
  if (prepared.data.splits.train) {
    fmt::print("steps       {} an epoch\n", steps_an_epoch(job, prepared.data.splits.train->size()));
  }
  fmt::print("folder      {}\n", job.train.folder.string());
  return kOk;
}

int run_validate(const ValidateArguments& options) {
  const train::Job job = load_job(options);
  if (!options.no_data) return check_with_data(options, job);
  fmt::print("{}: ok as far as can be checked without its data\n", options.job);
  return kOk;
}

}  // namespace
}  // namespace starling::cli

namespace starling {

void register_command_validate(cli::Commands& into) {
  auto [app, o] = into.add<cli::ValidateArguments>(
      "validate", "Checks a job and lists everything that is wrong with it, without training",
      {{"validate job.yaml", "reads the job and its data, makes the network and puts a batch's shapes through a step"},
       {"validate job.yaml --set model.name=resnet18", "the same with a value changed"},
       {"validate job.yaml --no-data", "looks at the file alone"}},
      cli::run_validate);
  cli::add_job_options(app, o);
  app.add_flag("--no-data", o.no_data, "Does not read the data");
}

}  // namespace starling
