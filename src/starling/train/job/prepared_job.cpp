#include "starling/train/job/prepared_job.h"

#include <fmt/format.h>

#include <algorithm>

#include "starling/base/config/nearest.h"
#include "starling/base/error.h"
#include "starling/base/error_text.h"
#include "starling/data/tokenizers/tokenizer.h"
#include "starling/graph/tracer.h"
#include "starling/nn/declared.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/random.h"
#include "starling/ops/def/apply.h"
#include "starling/train/job/job_device.h"
#include "starling/train/job/job_error.h"
#include "starling/train/job/job_sections.h"

namespace starling::train {
namespace {

zoo::Field field_of(const TensorType& type, std::int64_t below) {
  return {.sample = type.shape, .below = is_float(type.dtype) ? 0 : below};
}

// Default objective of a network that is not of the zoo, by the data: classes, tokens, or numbers.
zoo::Recipe data_recipe(const JobData& data) {
  zoo::Recipe recipe;
  for (const auto& type : data.fields) recipe.fields.push_back(field_of(type, data.facts.vocabulary));
  const bool labelled = data.fields.size() > 1;
  recipe.objective = data.facts.classes > 0      ? "classify"
                     : data.facts.vocabulary > 0 ? "next_token"
                     : labelled                  ? "regress"
                                                 : "reconstruct";
  return recipe;
}

zoo::Recipe declared_recipe(const ConfigNode& layers, const JobData& data) {
  zoo::Recipe recipe = data_recipe(data);
  const TensorType sample = data.fields.at(0);
  recipe.make = [layers, sample] { return nn::declared_net(layers, sample); };
  return recipe;
}

zoo::Recipe own_recipe(const std::shared_ptr<nn::Module>& own, JobData& data) {
  if (data.facts.vocabulary == 0) convert_to_numbers(data);
  zoo::Recipe recipe = data_recipe(data);
  recipe.make = [own] { return own; };
  return recipe;
}

void check_option(const Job& job, const char* key, std::int64_t least) {
  const zoo::Net& net = *job.model.net;
  if (least <= 0 || !zoo::has_option(net, key)) return;
  const auto given = net.json().at(key).get<std::int64_t>();
  if (given >= least) return;
  const std::string path = fmt::format("model.{}", key);
  refuse_job(job, path,
             fmt::format("[train] expected {} of at least {} for this data, got {} (leave it out: the data tells it)",
                         path, least, given));
}

// Tells an option that follows from the data and is out of range as what the data has, since nobody wrote the option.
[[noreturn]] void refuse_facts(const Job& job, const JobData& data, const std::string& option) {
  const zoo::Net& net = *job.model.net;
  nlohmann::json range = nlohmann::json::object();
  for (const auto& setting : net.kind->settings) {
    if (setting.key == option) range = setting.schema;
  }
  const auto least = range.value("minimum", std::int64_t{1});
  const Shape& sample = data.facts.sample;
  if (option == "image" && sample.rank() == 3 && sample[1] < least) {
    refuse_job(job, "data",
               fmt::format("[train] expected pictures of at least {0} × {0} for {1}, got {2} × {3} from the data (add "
                           "{{name: resize, size: [{0}, {0}]}} to data.transforms)",
                           least, net.name, sample[1], sample[2]));
  }
  refuse_job(job, "data",
             fmt::format("[train] expected data with {} {} for {}, got samples of {} with {} classes and {} tokens "
                         "(choose another network: `starling zoo` lists them)",
                         option, range.dump(), net.name, to_string(sample), data.facts.classes, data.facts.vocabulary));
}

zoo::Net fitted_net(const Job& job, const JobData& data) {
  try {
    zoo::DataFacts facts = data.facts;
    if (data.targets > 0) facts.classes = data.targets;
    return zoo::fitted(*job.model.net, facts, job.model.given);
  } catch (const ConfigError& error) {
    refuse_facts(job, data, error.path());
  }
}

// Facts about the target sequences of a data set.
void fit_targets(zoo::Net& net, const ModelJob& job, const JobData& data) {
  nlohmann::json open = nlohmann::json::object();
  const auto take = [&](const char* key, std::int64_t value) {
    const bool given = std::find(job.given.begin(), job.given.end(), key) != job.given.end();
    if (value > 0 && !given && zoo::has_option(net, key)) open[key] = value;
  };
  if (data.splits.target_tokenizer) take("target_vocabulary", data.splits.target_tokenizer->size());
  if (data.fields.size() > 1 && data.fields[1].shape.rank() == 1) take("target_tokens", data.fields[1].shape[0]);
  if (!open.empty()) net = zoo::with(net, open);
}

// Numbers to predict make a classifier of the zoo a regression, with an output for each of them.
void make_regression(zoo::Recipe& recipe, const JobData& data) {
  if (data.targets == 0 || recipe.objective != "classify") return;
  recipe.objective = "regress";
  if (recipe.fields.size() > 1) recipe.fields[1] = {.sample = data.fields.at(1).shape};
}

// Samples as the network reads them: token ids or numbers.
void fit_samples(const Job& job, JobData& data, bool reads_ids) {
  if (!reads_ids) return convert_to_numbers(data);
  if (data.fields.at(0).dtype == DType::i64) return;
  refuse_job(
      job, "data",
      fmt::format("[train] expected token ids, i64, for a network that begins with an embedding, got {} from the "
                  "data (texts: data.name: csv_text or text; arrays: save them by x.astype('int64'))",
                  to_string(data.fields[0])));
}

// A regression learns targets standardised where the data says by what, unless the job does.
ObjectivePtr objective_of(const Chosen<ObjectivePtr>& chosen, const data::DataSplits& splits) {
  nlohmann::json options = chosen.json();
  if (chosen.name != "regress" || splits.target_means.empty() || !options.at("target_means").empty())
    return chosen.make();
  options["name"] = chosen.name;
  options["target_means"] = splits.target_means;
  options["target_deviations"] = splits.target_deviations;
  return objective_kinds().choose(ConfigNode::parse(options.dump(), "train.objective")).make();
}

zoo::Recipe fit_model(Job& job, JobData& data) {
  if (job.model.layers) {
    fit_samples(job, data, nn::reads_ids(*job.model.layers));
    return declared_recipe(*job.model.layers, data);
  }
  zoo::Net& net = *job.model.net;
  net = fitted_net(job, data);
  fit_targets(net, job.model, data);
  check_option(job, "classes", data.facts.classes);
  check_option(job, "vocabulary", data.facts.vocabulary);
  for (auto& option : open_options(job.model)) job.model.given.push_back(std::move(option));
  zoo::Recipe recipe = net.make();
  fit_samples(job, data, !recipe.fields.empty() && recipe.fields[0].below > 0);
  make_regression(recipe, data);
  return recipe;
}

}  // namespace

std::vector<NamedMetric> told_metrics(const std::vector<Chosen<std::unique_ptr<Metric>>>& chosen,
                                      const Objective& objective, const std::string& evaluated) {
  std::vector<NamedMetric> metrics;
  for (const auto& one : chosen) metrics.push_back({one.name, one.make()});
  if (chosen.empty()) metrics = metrics_by_name(objective.metrics());
  if (!evaluated.empty()) {
    for (auto& metric : metrics) metric.name = evaluated + "_" + metric.name;
  }
  return metrics;
}

std::vector<std::pair<std::string, std::string>> watched_metrics(const TrainJob& job) {
  std::vector<std::pair<std::string, std::string>> named = {
      {"train.watch", job.watch},
      {"train.best", job.best},
      {"train.early_stop.metric", job.early_stop ? job.early_stop->metric : ""}};
  std::erase_if(named, [](const auto& one) { return one.second.empty(); });
  return named;
}

std::string told_name(const PreparedJob& prepared, const std::string& metric, const std::string& key) {
  if (metric.empty()) return metric;
  std::vector<std::string> known;
  for (const auto& one : prepared.metrics) known.push_back(one.name);
  for (const std::string& prefix : {std::string("ema_"), std::string("swa_")}) {
    if (!metric.starts_with(prefix)) continue;
    const auto& average = prepared.job.train.average;
    if (!average || (average->decay == 0) != (prefix == "swa_")) {
      refuse_job(prepared.job, key,
                 fmt::format("[train] expected train.average{} for the metric '{}', got {} (add train.average: {})",
                             prefix == "swa_" ? " with decay: 0" : "", metric,
                             average ? fmt::format("a decay of {}", average->decay) : "none",
                             prefix == "swa_" ? "{decay: 0}" : "{decay: 0.999}"));
    }
    return prefix + told_name(prepared, metric.substr(prefix.size()), key);
  }
  for (const std::string& name : {metric, prepared.data.evaluated + "_" + metric}) {
    if (std::find(known.begin(), known.end(), name) != known.end()) return name;
  }
  std::vector<std::string> either = known;  // jobs may leave out the part that a metric is taken on
  for (const auto& one : metric_kinds().names()) {
    if (std::find(known.begin(), known.end(), prepared.data.evaluated + "_" + one) != known.end())
      either.push_back(one);
  }
  const std::string near = nearest(metric, either);
  refuse_job(
      prepared.job, key,
      fmt::format("[train] expected a metric of this job for {}, one of ({}), got '{}'{}", key, fmt::join(known, ", "),
                  metric, near.empty() ? " (train.metrics adds others)" : fmt::format(" (did you mean '{}'?)", near)));
}

std::unique_ptr<optim::Optimizer> make_optimizer(const Job& job, const nn::Module& net) {
  return job.optimizer.kind.make()(optim::make_groups(net.named_parameters(), job.optimizer.groups));
}

PreparedJob prepare_job(const Job& job) { return prepare_job(job, load_job_data(job)); }

PreparedJob prepare_job(const Job& job, JobData data) { return prepare_job(job, std::move(data), nullptr); }

PreparedJob prepare_job(const Job& job, JobData data, const std::shared_ptr<nn::Module>& own) {
  return prepare_job(job, std::move(data), own, 0);
}

PreparedJob prepare_job(const Job& job, JobData data, const std::shared_ptr<nn::Module>& own, int local_rank) {
  PreparedJob made;
  made.job = job;
  made.data = std::move(data);
  made.recipe = own ? own_recipe(own, made.data) : fit_model(made.job, made.data);
  if (!own && made.job.model.net && !made.recipe.fields.empty()) {
    const Shape& wanted = made.recipe.fields[0].sample;
    const Shape& given = made.data.fields.at(0).shape;
    if (wanted != given && wanted.numel() != given.numel()) {
      refuse_job(
          job, "model",
          fmt::format("[train] expected samples of {} for {}, got {} from the data (leave sizes out that the data "
                      "tells, or choose another network)",
                      to_string(wanted), made.job.model.net->name, to_string(given)));
    }
    reshape_samples(made.data, wanted);
  }
  manual_seed(job.train.seed);
  const Device device = rank_device(job, local_rank);
  made.net = made.recipe.make();
  made.net->to(device);
  default_generator().to(device);  // steps advance it where they run
  manual_seed(job.train.seed);
  made.objective_name = job.train.objective ? job.train.objective->name : made.recipe.objective;
  made.objective = objective_of(
      job.train.objective ? *job.train.objective : objective_kinds().by_name(made.recipe.objective), made.data.splits);
  made.metrics = told_metrics(job.train.metrics, *made.objective, made.data.evaluated);
  return made;
}

namespace {

StepShapes traced_shapes(const PreparedJob& prepared) {
  StepShapes shapes;
  std::vector<Tensor> stand_ins;
  const auto parameters = prepared.net->parameters();
  const Device device = parameters.empty() ? kCpu : parameters.front().device();
  for (const auto& type : prepared.data.fields) {
    Shape shape = type.shape;
    shape.insert(0, prepared.job.data.load.batch);
    stand_ins.push_back(empty(shape, type.dtype, device));
    shapes.fields.push_back(stand_ins.back().type());
  }
  static_cast<void>(graph::trace(
      [&](std::span<const Tensor> in) {
        const NoGrad no_grad;
        const Objective::Outputs out = prepared.objective->apply(*prepared.net, in);
        if (out.prediction.defined()) shapes.prediction = out.prediction.type();
        if (out.target.defined()) shapes.target = out.target.type();
        return TensorList{out.loss};
      },
      stand_ins));
  return shapes;
}

std::string listed(const std::vector<TensorType>& types) {
  std::string text;
  for (const auto& type : types) text += (text.empty() ? "" : ", ") + to_string(type);
  return text;
}

}  // namespace

namespace {

std::string layer_name(const ConfigNode& item) {
  if (item.is_scalar()) return item.as_string();
  for (const auto& [key, value] : item.is_map() ? item.as_map() : std::vector<std::pair<std::string, ConfigNode>>{}) {
    if (key != "name" && key != "from") return key;
  }
  return "";
}

// Number of the first linear layer of a list that reads pictures of a convolution or a pool as they are; -1: none.
int unflattened_linear(const ConfigNode& layers) {
  bool picture = false;
  int number = 0;
  for (const auto& item : layers.as_list()) {
    const std::string name = layer_name(item);
    if (name.find("conv") != std::string::npos || name.find("pool") != std::string::npos) picture = true;
    if (name == "flatten" || name == "reshape" || name.starts_with("global_")) picture = false;
    if (name == "linear" && picture) return number;
    ++number;
  }
  return -1;
}

}  // namespace

StepShapes trace_shapes(const PreparedJob& prepared) {
  const std::string model = prepared.job.model.layers ? "model.layers" : "model";
  StepShapes shapes;
  try {
    shapes = traced_shapes(prepared);
  } catch (const Error& error) {
    const auto& layers = prepared.job.model.layers;
    const int linear = layers ? unflattened_linear(*layers) : -1;
    refuse_job(
        prepared.job, linear < 0 ? model : fmt::format("{}.{}", model, linear),
        fmt::format("[train] expected a network and an objective ({}) for samples of {}, got: {}{}",
                    prepared.objective_name, listed(prepared.data.fields), without_rank(error.what()),
                    linear < 0 ? ""
                               : " (a linear layer maps the last axis alone: put `- flatten` before this one, so "
                                 "that it reads whole pictures)"));
  }
  if (const auto least = prepared.data.splits.least_label; prepared.objective_name == "classify" && least < 0) {
    refuse_job(prepared.job, "data.train",
               fmt::format("[train] expected labels from 0 to learn classes ({}), got {} (number them from 0; to learn "
                           "numbers, write train.objective: regress and save them as f32)",
                           prepared.objective_name, least));
  }
  const Shape& made = shapes.prediction.shape;
  const std::int64_t classes = prepared.data.facts.classes;
  if (prepared.objective_name == "classify" && made.rank() == 2 && made[1] < classes) {
    refuse_job(prepared.job, model,
               fmt::format("[train] expected a network that gives {} numbers a sample, one a class, got {} (give the "
                           "last layer {} outputs)",
                           classes, to_string(shapes.prediction), classes));
  }
  return shapes;
}

void expect_batches(const PreparedJob& prepared) {
  const LoadJob& load = prepared.job.data.load;
  const auto& train = prepared.data.splits.train;
  if (!load.drop_last || train == nullptr || train->size() >= load.batch) return;
  refuse_job(prepared.job, "data.drop_last",
             fmt::format("[train] expected at least {} samples, one batch, with data.drop_last: true, which leaves out "
                         "smaller ones, got {} (write data.batch: {} or less, or leave drop_last out)",
                         load.batch, train->size(), std::max<std::int64_t>(1, train->size())));
}

namespace {

// Zeros of a batch of one sample.
Tensor one_sample(TensorType batch) {
  if (batch.shape.rank() > 0) batch.shape[0] = 1;
  return zeros(batch.shape, batch.dtype);
}

}  // namespace

void expect_metrics(const PreparedJob& prepared, const StepShapes& shapes) {
  const auto& chosen = prepared.job.train.metrics;
  if (chosen.empty() || prepared.data.evaluated.empty()) return;
  std::vector<Tensor> fields;
  for (const auto& type : shapes.fields) fields.push_back(one_sample(type));
  Judged sample{.prediction = {}, .target = {}, .fields = fields, .weight = 1};
  if (shapes.prediction.shape.rank() > 0) sample.prediction = one_sample({DType::f32, shapes.prediction.shape});
  if (shapes.target) sample.target = one_sample(*shapes.target);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    try {
      chosen[i].make()->add(sample);
    } catch (const Error& error) {
      refuse_job(
          prepared.job, fmt::format("train.metrics.{}", i),
          fmt::format("[train] expected metrics for the objective {}, such as {}, got {}, which cannot judge one "
                      "sample: {}",
                      prepared.objective_name, fmt::join(prepared.objective->metrics(), ", "), chosen[i].name,
                      without_rank(error.what())));
    }
  }
}

nn::Summary layer_summary(const PreparedJob& prepared, std::int64_t batch) {
  std::vector<TensorType> inputs = prepared.data.fields;
  for (auto& type : inputs) type.shape.insert(0, batch);
  return nn::summary(*prepared.net, inputs, [&](std::span<const Tensor> in) {
    const Objective::Outputs out = prepared.objective->apply(*prepared.net, in);
    return TensorList{out.prediction.defined() ? out.prediction : out.loss};
  });
}

}  // namespace starling::train
