#include <utility>

#include "starling/base/error.h"
#include "starling/data/tokenizers/tokenizer.h"
#include "starling/ops/def/apply.h"
#include "starling/train/job/prepared_job.h"
#include "starling/train/loop/eval_mode.h"
#include "starling/train/saved_model/saved_model.h"

namespace starling::train {
namespace {

std::string input_name(const ModelField& field) {
  if (!is_float(field.dtype)) return "tokens";
  return field.sample.rank() == 3 ? "image" : "features";
}

std::string output_name(const std::string& task) {
  if (task == "classify" || task == "next_token" || task == "multi_label") return "logits";
  if (task == "seq2seq") return "tokens_out";
  return task == "reconstruct" ? "reconstruction" : "output";
}

nlohmann::json step_json(const Chosen<TransformStep>& step) {
  nlohmann::json one = step.json();
  one["name"] = step.name;
  return one;
}

// Whether predictions need a step: not those that mix batches or work on targets, nor augmentation. A random step that
// changes the type, such as a crop to a size, is needed all the same. `fields` are the types before and, then, after
// it.
bool predicts_with(const Chosen<TransformStep>& chosen, std::vector<TensorType>& fields) {
  const TransformStep step = chosen.make();
  if (!step.sample) return false;
  const std::vector<TensorType> before = std::exchange(fields, step.sample->fields(fields));
  if (chosen.json().value("field", 0) != 0) return false;
  return !step.sample->random() || fields.at(0) != before.at(0);
}

// Transforms of a raw sample before the network: what the source did, the job's transforms, conversions to numbers.
nlohmann::json transforms_json(const PreparedJob& prepared) {
  const DataJob& job = prepared.job.data;
  const data::DataSplits& splits = prepared.data.splits;
  nlohmann::json list = splits.raw_transforms;
  const nlohmann::json source = job.source.json();
  if (source.contains("mean") && source.contains("std") && !source.value("bytes", false)) {
    const auto as_list = [](const nlohmann::json& value) {
      return value.is_array() ? value : nlohmann::json::array({value});
    };
    list.push_back({{"name", "normalise"}, {"mean", as_list(source["mean"])}, {"std", as_list(source["std"])}});
  }
  auto fields = splits.train ? splits.train->fields() : splits.train_shards->decoder->fields();
  for (const auto& step : job.transforms) {
    if (predicts_with(step, fields)) list.push_back(step_json(step));
  }
  for (const auto& step : prepared.data.conversions) {
    if (step.json().value("field", 0) == 0) list.push_back(step_json(step));
  }
  return list;
}

}  // namespace

Result<void> export_model(const PreparedJob& prepared, const std::filesystem::path& folder, nlohmann::json about,
                          const FetchBytes& fetch) {
  const EvalMode eval(*prepared.net);
  ModelSignature signature;
  ModelField input{"", prepared.data.fields.at(0).dtype, prepared.data.fields.at(0).shape};
  if (!prepared.recipe.fields.empty()) input.sample = prepared.recipe.fields[0].sample;
  input.name = input_name(input);
  signature.inputs = {input};
  signature.outputs = {{output_name(prepared.objective_name), DType::f32, {}}};
  signature.task = prepared.objective_name;
  signature.class_names = prepared.data.splits.class_names;
  signature.target_names = prepared.data.splits.target_names;
  signature.raw = prepared.data.splits.raw;
  signature.transforms = transforms_json(prepared);
  if (const auto& tokenizer = prepared.data.splits.tokenizer) signature.tokenizer = tokenizer->json();
  if (const auto& tokenizer = prepared.data.splits.target_tokenizer) signature.target_tokenizer = tokenizer->json();
  about["job"] = nlohmann::json::parse(job_json(prepared.job).dump());
  signature.about = std::move(about);
  return save_model(
      folder,
      [&](std::span<const Tensor> in) {
        const NoGrad no_grad;
        return TensorList{prepared.objective->predict(*prepared.net, in)};
      },
      std::move(signature), fetch);
}

}  // namespace starling::train
