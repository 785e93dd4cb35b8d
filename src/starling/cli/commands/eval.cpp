#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "starling/cli/commands.h"
#include "starling/cli/job_file.h"
#include "starling/data/loading/loader.h"
#include "starling/ops/def/apply.h"
#include "starling/train/job/prepared_job.h"
#include "starling/train/loop/evaluator.h"
#include "starling/train/run/run_weights.h"
#include "starling/train/saved_model/saved_module.h"

namespace starling::cli {
namespace {

namespace fs = std::filesystem;

struct EvalArguments {
  std::string what;
  std::string data;
  std::vector<std::string> set;
  std::vector<std::string> metrics;
  std::string checkpoint = "latest";
  int threads = 0;
  bool json = false;
};

train::EvaluationData evaluation_data(const train::PreparedJob& prepared) {
  const data::DataSplits& splits = prepared.data.splits;
  if (prepared.data.evaluated == "valid") return {splits.valid, splits.valid_shards};
  if (prepared.data.evaluated == "test") return {splits.test, splits.test_shards};
  throw UsageError("[eval] expected data with a part to evaluate on, got none (see data.evaluate)");
}

std::vector<NamedMetric> chosen_metrics(const EvalArguments& options, const train::PreparedJob& prepared) {
  if (options.metrics.empty()) return prepared.metrics;
  auto metrics = as_usage([&] { return metrics_by_name(options.metrics); });
  for (auto& metric : metrics) metric.name = prepared.data.evaluated + "_" + metric.name;
  return metrics;
}

LoaderOptions loader_options(const train::PreparedJob& prepared) {
  LoaderOptions made;
  made.batch = prepared.job.data.load.eval_batch;
  made.shuffle = false;
  made.workers = static_cast<int>(prepared.job.data.load.workers);
  made.transforms = prepared.data.eval_steps;
  return made;
}

std::unique_ptr<Loader> make_loader(const train::PreparedJob& prepared) {
  const train::EvaluationData data = evaluation_data(prepared);
  if (data.set) return std::make_unique<Loader>(data.set, loader_options(prepared));
  return std::make_unique<Loader>(*data.shards, StreamOptions{.shuffle_shards = false}, loader_options(prepared));
}

Evaluation evaluate_run(const EvalArguments& options, train::PreparedJob& prepared, std::int64_t& step) {
  const Checkpoint checkpoint = train::load_run_checkpoint(options.what, options.checkpoint).value();
  step = checkpoint.step;
  train::load_weights(*prepared.net, checkpoint);
  train::EvaluatorOptions how;
  how.metrics = chosen_metrics(options, prepared);
  how.loader = loader_options(prepared);
  how.precision = prepared.job.train.precision;
  how.threads = options.threads;
  return train::Evaluator(*prepared.net, prepared.objective, how)
      .evaluate(evaluation_data(prepared), prepared.data.splits.class_names);
}

double loss_of(const Objective::Outputs& out) { return out.loss.defined() ? out.loss.item() : std::nan(""); }
double weight_of(const Objective::Outputs& out, const Batch& batch) {
  return out.weight.defined() ? out.weight.item() : static_cast<double>(batch.size);
}

// Evaluates eagerly, batch by batch, since a saved model is a compiled program that cannot be traced into another.
Evaluation evaluate_model(const EvalArguments& options, const train::PreparedJob& prepared) {
  SavedModel model = SavedModel::load(options.what, {.threads = options.threads}).value();
  train::SavedModule net(model);
  const auto metrics = chosen_metrics(options, prepared);
  const auto loader = make_loader(prepared);
  Evaluation found;
  bool knows_loss = true;
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
    if (auto table = metric.metric->table(prepared.data.splits.class_names); !table.empty())
      found.tables[metric.name] = std::move(table);
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
  fmt::print(stderr, "starling: data as {}/model.json says (--data JOB takes other): {} {}\n", options.what,
             job.data.source.name, job.data.source.json().dump());
  return job;
}

int run_eval(const EvalArguments& options) {
  std::int64_t step = -1;
  Evaluation found;
  if (is_saved_model(options.what)) {
    const train::Job job = options.data.empty() ? job_of_model(options) : load_job({options.data, options.set});
    found = evaluate_model(options, prepare_job(job));
  } else {
    if (!fs::exists(fs::path(options.what) / "job.yaml"))
      throw UsageError(fmt::format("[eval] expected the folder of a run or of a saved model, got {}", options.what));
    train::Job job = load_job({options.what, options.set});
    if (!options.data.empty()) job.data = load_job({options.data, options.set}).data;
    train::PreparedJob prepared = prepare_job(job);
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
       {"eval lenet --data examples/fashion_lenet.yaml", "a saved model on the data of a job"}},
      cli::run_eval);
  app.add_option("what", o.what, "Folder of a run or of a saved model")->required();
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
