#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "starling/cli/commands.h"
#include "starling/cli/job_file.h"
#include "starling/cli/run_home.h"
#include "starling/cli/run_model.h"
#include "starling/cli/terminal/tell.h"
#include "starling/data/loading/loader.h"
#include "starling/ops/def/apply.h"
#include "starling/train/job/job_data.h"
#include "starling/train/job/job_evaluation.h"
#include "starling/train/loop/evaluator.h"
#include "starling/train/run/run_weights.h"
#include "starling/train/saved_model/saved_module.h"

namespace starling::cli {
namespace {

struct EvalArguments {
  std::string what;
  std::string data;
  std::string job;
  std::vector<std::string> set;
  std::vector<std::string> metrics;
  std::string checkpoint = "latest";
  int threads = 0;
  bool json = false;
};

void expect_evaluation_data(const train::PreparedJob& prepared) {
  if (evaluation_data(prepared).empty())
    throw UsageError(
        "[eval] expected data with a part to evaluate on, got none (keep some apart, as by --set "
        "data.split.test=0.1)");
}

std::vector<NamedMetric> chosen_metrics(const EvalArguments& options, const train::PreparedJob& prepared) {
  if (options.metrics.empty()) return prepared.metrics;
  auto metrics = as_usage([&] { return metrics_by_name(options.metrics); });
  for (auto& metric : metrics) metric.name = prepared.data.evaluated + "_" + metric.name;
  return metrics;
}

Evaluation evaluate_run(const EvalArguments& options, train::PreparedJob& prepared, std::int64_t& step) {
  expect_evaluation_data(prepared);
  const Checkpoint checkpoint = train::load_run_checkpoint(options.what, options.checkpoint).value();
  step = checkpoint.step;
  train::load_weights(*prepared.net, checkpoint);
  train::EvaluatorOptions how;
  how.metrics = chosen_metrics(options, prepared);
  how.loader = evaluation_loader(prepared);
  how.precision = prepared.job.train.precision;
  how.threads = options.threads;
  return train::Evaluator(*prepared.net, prepared.objective, how)
      .evaluate(evaluation_data(prepared), prepared.data.splits.class_names);
}

double loss_of(const Objective::Outputs& out) { return out.loss.defined() ? out.loss.item() : std::nan(""); }
double weight_of(const Objective::Outputs& out, const Batch& batch) {
  return out.weight.defined() ? out.weight.item() : static_cast<double>(batch.size);
}

// Names of the model's classes. Labels count by number, so data whose classes differ is told about.
const std::vector<std::string>& names_of_classes(const ModelSignature& signature, const train::PreparedJob& prepared) {
  const auto& own = signature.class_names;
  const auto& given = prepared.data.splits.class_names;
  if (own.empty()) return given;
  if (!given.empty() && own != given)
    tell(
        fmt::format("warning: the model has the classes ({}), the data ({}): labels are compared by number; "
                    "data.class_names sets their order",
                    fmt::join(own, ", "), fmt::join(given, ", ")));
  return own;
}

// Evaluates eagerly, batch by batch, since a saved model is a compiled program that cannot be traced into another.
Evaluation evaluate_model(const EvalArguments& options, const train::PreparedJob& prepared) {
  expect_evaluation_data(prepared);
  SavedModel model = SavedModel::load(options.what, {.threads = options.threads}).value();
  train::SavedModule net(model);
  const auto metrics = chosen_metrics(options, prepared);
  const auto loader = make_evaluation_loader(prepared);
  Evaluation found;
  bool knows_loss = true;
  const auto& names = names_of_classes(model.signature(), prepared);
  const NoGrad no_grad;
  net.eval();
  while (const Batch* batch = loader->next()) {
    const std::span<const Tensor> fields(batch->fields.data(), batch->fields.size());
    const Objective::Outputs out = prepared.objective->judge(net, fields);
    const Judged judged{out.prediction, out.target, fields, loss_of(out), weight_of(out, *batch)};
    for (const auto& metric : metrics) metric.metric->add(judged);
    found.samples += batch->size;
    knows_loss = knows_loss && out.loss.defined();
  }
  for (const auto& metric : metrics) {
    const double value = metric.metric->value();
    if (!knows_loss && std::isnan(value)) continue;  // derived from the loss
    found.metrics[metric.name] = value;
    if (auto table = metric.metric->table(names); !table.empty()) found.tables[metric.name] = std::move(table);
  }
  return found;
}

void print(const EvalArguments& options, const Evaluation& found, std::int64_t step) {
  if (options.json) {
    nlohmann::ordered_json json = {{"samples", found.samples}, {"metrics", nlohmann::ordered_json::object()}};
    if (step >= 0) json["step"] = step;
    for (const auto& [name, value] : found.metrics) json["metrics"][name] = value;
    fmt::print("{}\n", json.dump());
    return;
  }
  fmt::print("{} samples{}\n", found.samples, step >= 0 ? fmt::format(", checkpoint of step {}", step) : "");
  for (const auto& [name, value] : found.metrics) fmt::print("{:<24} {:.6g}\n", name, value);
  for (const auto& [name, table] : found.tables) fmt::print("\n{}\n{}", name, table);
}

// Job that a saved model came from, for its data.
train::Job job_of_model(const EvalArguments& options) {
  const SavedModel model = SavedModel::load(options.what).value();
  const auto& about = model.signature().about;
  if (!about.is_object() || !about.contains("job"))
    throw UsageError("[eval] expected --data JOB with a model that does not say which data it is for, got none");
  const std::string text = about.at("job").dump();
  train::Job job =
      as_usage([&] { return train::read_job(ConfigNode::parse(text, options.what + "/model.json", options.set)); });
  // The paths come from the model's author: show the user what is opened.
  tell(fmt::format("data as {}/model.json says (--data JOB takes other): {} {}", options.what, job.data.source.name,
                   job.data.source.json().dump()));
  return job;
}

int run_eval(EvalArguments options) {
  std::int64_t step = -1;
  Evaluation found;
  if (is_saved_model(options.what)) {
    const train::Job job = options.data.empty() ? job_of_model(options) : load_job({options.data, options.set});
    const data::Reading as = reading_of(SavedModel::load(options.what).value().signature());
    found = evaluate_model(options, prepare_job(job, load_job_data(job, as)));
  } else {
    train::Job job = load_job({job_of_run(options.what, options.job, "eval"), options.set});
    data::Reading as;  // words, means and classes are those of the training, whatever files are evaluated on
    if (!options.data.empty()) {
      as = reading_of_run(options.what, job);
      job.data = load_job({options.data, options.set}).data;
    }
    if (options.data.empty() && options.job.empty()) enter_run_home(options.what, job);
    train::PreparedJob prepared = prepare_job(job, load_job_data(job, as));
    found = evaluate_run(options, prepared, step);
  }
  print(options, found, step);
  return kOk;
}

}  // namespace
}  // namespace starling::cli

namespace starling {

void register_command_eval(cli::Commands& into) {
  auto [app, o] = into.add<cli::EvalArguments>(
      "eval", "Evaluates the network of a run, or a saved model, on data",
      {{"eval runs/fashion_lenet", "the newest checkpoint on the job's own data, with its metrics"},
       {"eval runs/fashion_lenet --checkpoint best --metrics accuracy,confusion --json", "the best one, for programs"},
       {"eval runs/from_cpp --job examples/fashion_lenet.yaml",
        "a run of a C++ program, with the job's network and data"},
       {"eval lenet --data examples/fashion_lenet.yaml", "a saved model on the data of a job"}},
      cli::run_eval);
  app.add_option("what", o.what, "Folder of a run or of a saved model")->required();
  app.add_option("--job", o.job, "Job file with the network of a run that a C++ program made; nothing: the run's own");
  app.add_option("--data", o.data, "Job file whose data is taken; nothing: that of the run or model");
  cli::add_set_option(app, o.set);
  app.add_option("--metrics", o.metrics, "Names, separated by commas; nothing: those of the job")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--checkpoint", o.checkpoint, "Of a run: latest, best or the number of a step")->capture_default_str();
  app.add_option("--threads", o.threads, "0: all")->check(CLI::Range(0, 1024));
  app.add_flag("--json", o.json, "One JSON line for programs");
}

}  // namespace starling
