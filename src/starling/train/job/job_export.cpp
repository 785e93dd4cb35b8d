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

// Transforms of a sample before the network: scaling by the source, then the job's transforms.
nlohmann::json transforms_json(const DataJob& job) {
  nlohmann::json list = nlohmann::json::array();
  const nlohmann::json source = job.source.json();
  if (source.contains("mean") && source.contains("std") && !source.value("bytes", false)) {
    const auto as_list = [](const nlohmann::json& value) {
      return value.is_array() ? value : nlohmann::json::array({value});
    };
    list.push_back({{"name", "normalise"}, {"mean", as_list(source["mean"])}, {"std", as_list(source["std"])}});
  }
  for (const auto& step : job.transforms) {
    nlohmann::json one = step.json();
    one["name"] = step.name;
    list.push_back(std::move(one));
  }
  return list;
}

}  // namespace

Result<void> export_model(const PreparedJob& prepared, const std::filesystem::path& folder, nlohmann::json about) {
  const EvalMode eval(*prepared.net);
  ModelSignature signature;
  ModelField input{"", prepared.data.fields.at(0).dtype, prepared.data.fields.at(0).shape};
  if (!prepared.recipe.fields.empty()) input.sample = prepared.recipe.fields[0].sample;
  input.name = input_name(input);
  signature.inputs = {input};
  signature.outputs = {{output_name(prepared.objective_name), DType::f32, {}}};
  signature.task = prepared.objective_name;
  signature.class_names = prepared.data.splits.class_names;
  signature.transforms = transforms_json(prepared.job.data);
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
      std::move(signature));
}

}  // namespace starling::train
