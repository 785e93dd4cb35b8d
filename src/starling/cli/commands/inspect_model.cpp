#include <fmt/format.h>

#include <filesystem>
#include <string>

#include "starling/cli/commands.h"
#include "starling/cli/job_file.h"
#include "starling/data/formats/safetensors.h"
#include "starling/data/raw/raw.h"
#include "starling/graph/printer.h"
#include "starling/tensor/bytes.h"
#include "starling/train/job/prepared_job.h"
#include "starling/train/run/run_weights.h"
#include "starling/train/saved_model/saved_model.h"

namespace starling::cli {
namespace {

namespace fs = std::filesystem;

struct InspectModelArguments {
  std::string what;
  std::string checkpoint = "latest";
  std::vector<std::string> set;
  std::int64_t batch = 1;
  bool graph = false;
  bool signature = false;
};

std::string field_text(const ModelField& field) {
  std::string shape = "n";
  for (const auto size : field.sample) shape += fmt::format(", {}", size);
  return fmt::format("{} {}[{}]", field.name, name(field.dtype), shape);
}

void print_tensors(const std::vector<NamedTensor>& tensors) {
  std::int64_t elements = 0;
  std::int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) {
    fmt::print("{:<48} {}\n", name, to_string(tensor.type()));
    elements += tensor.numel();
    bytes += static_cast<std::int64_t>(bytes_of(tensor));
  }
  fmt::print("{} tensors, {} elements, {:.1f} MB\n", tensors.size(), elements, static_cast<double>(bytes) / 1e6);
}

// Raw inputs of a model in a line: long lists of words and numbers are only counted.
std::string raw_text(const nlohmann::json& raw) {
  constexpr std::size_t kMost = 8;
  nlohmann::ordered_json shown = {{"kind", raw.at("kind")}};
  for (const auto& [key, value] : raw.items()) {
    if (key == "kind") continue;
    if (value.is_array() && (value.size() > kMost || key == "words")) {
      shown[key] = fmt::format("{} values", value.size());
    } else {
      shown[key] = value;
    }
  }
  return shown.dump();
}

void print_model(const InspectModelArguments& options, const SavedModel& model) {
  const ModelSignature& signature = model.signature();
  if (options.graph) {
    fmt::print("{}", print(model.graph(1)));
    return;
  }
  for (const auto& field : signature.inputs) fmt::print("input       {}\n", field_text(field));
  for (const auto& field : signature.outputs) fmt::print("output      {}\n", field_text(field));
  fmt::print("task        {}\n", signature.task.empty() ? "none" : signature.task);
  if (!signature.class_names.empty()) fmt::print("classes     {}\n", fmt::join(signature.class_names, ", "));
  if (!signature.target_names.empty()) fmt::print("targets     {}\n", fmt::join(signature.target_names, ", "));
  if (const std::string kind = data::raw_kind(signature.raw); !kind.empty())
    fmt::print("reads       {}\n", raw_text(signature.raw));
  for (const auto& step : signature.transforms) fmt::print("transform   {}\n", step.dump());
  if (signature.about.is_object() && signature.about.contains("metrics"))
    fmt::print("metrics     {}\n", signature.about.at("metrics").dump());
  if (!options.signature) print_tensors(model.weights());
}

int run_inspect_model(const InspectModelArguments& options) {
  const fs::path path(options.what);
  if (path.extension() == ".yaml" || path.extension() == ".yml") {
    const train::PreparedJob prepared = prepare_job(load_job({options.what, options.set}));
    fmt::print("{}", layer_summary(prepared, options.batch).text());
  } else if (is_saved_model(path)) {
    print_model(options, SavedModel::load(path).value());
  } else if (path.extension() == ".safetensors") {
    print_tensors(data::SafetensorsFile::open(path).value().tensors());
  } else if (fs::exists(path / "checkpoints")) {
    const Checkpoint checkpoint = train::load_run_checkpoint(path, options.checkpoint).value();
    fmt::print("checkpoint of step {}\n", checkpoint.step);
    print_tensors(checkpoint.tensors);
  } else {
    throw UsageError(fmt::format(
        "[inspect] expected a job (.yaml), a saved model, the folder of a run or a .safetensors file, got {}",
        options.what));
  }
  return kOk;
}

}  // namespace
}  // namespace starling::cli

namespace starling {

void register_command_inspect_model(cli::Commands& into) {
  auto [app, o] = into.add<cli::InspectModelArguments>(
      "inspect model",
      "Lists the layers of a job's network, or what a saved model, a checkpoint or a safetensors file holds",
      {{"inspect model job.yaml", "a row for each layer: shape, parameters, FLOPs"},
       {"inspect model runs/fashion_lenet/model", "its inputs, outputs, classes and weights"},
       {"inspect model runs/fashion_lenet/model --graph", "its program, for a batch of one"},
       {"inspect model runs/fashion_lenet --checkpoint best", "every tensor of a checkpoint"}},
      cli::run_inspect_model);
  app.add_option("what", o.what, "Job file (YAML), folder of a saved model or of a run, or a .safetensors file")
      ->required();
  app.add_option("--set", o.set, "Replaces a value of the job: model.hidden=64; may be given again")
      ->allow_extra_args(false);
  app.add_option("--batch", o.batch, "Of a job: samples that shapes and FLOPs are for")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--checkpoint", o.checkpoint, "Of a run: latest, best or the number of a step")->capture_default_str();
  app.add_flag("--graph", o.graph, "Prints the program instead");
  app.add_flag("--signature", o.signature, "Leaves out the weights");
}

}  // namespace starling
