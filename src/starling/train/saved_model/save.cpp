#include <algorithm>

#include "starling/base/error.h"
#include "starling/base/file/file.h"
#include "starling/base/file/folder.h"
#include "starling/data/formats/safetensors.h"
#include "starling/graph/printer.h"
#include "starling/ops/api/state.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/state.h"
#include "starling/ops/def/registry.h"
#include "starling/train/saved_model/batch_text.h"
#include "starling/train/saved_model/program_rules.h"
#include "starling/train/saved_model/saved_model.h"

namespace starling {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGraph = "graph.txt";
constexpr const char* kWeights = "weights.safetensors";
constexpr std::uint64_t kAnyBytes = std::uint64_t{1} << 60;

std::vector<Tensor> stand_ins(const std::vector<ModelField>& fields, std::int64_t batch) {
  std::vector<Tensor> made;
  for (const auto& field : fields) {
    Shape shape = field.sample;
    shape.insert(0, batch);
    made.push_back(zeros(shape, field.dtype));
  }
  return made;
}

// Unnamed captured tensors are inputs after the arguments: they become weights like the others.
void name_captured(graph::Graph& graph, std::size_t arguments, const std::vector<Tensor>& captured) {
  for (std::size_t i = 0; i < captured.size(); ++i) {
    Tensor tensor = data::on_host(captured[i]);
    const TensorType type = tensor.type();
    const int index = graph.add_variable({fmt::format("captured.{}", i), type, tensor, -1});
    graph::Node& node = graph.node(graph.value(graph.inputs[arguments + i]).node);
    node.op = &find_op("variable");
    node.attrs = Attrs(op::SourceAttrs{.index = index, .shape = type.shape, .dtype = type.dtype});
  }
  graph.inputs.resize(arguments);
}

graph::Graph traced(const graph::TraceFn& f, const ModelSignature& signature, std::int64_t batch) {
  const NoGrad no_grad;
  graph::Trace trace = starling::graph::trace(f, stand_ins(signature.inputs, batch));
  graph::Graph& graph = trace.graph;
  name_captured(graph, signature.inputs.size(), trace.hidden_inputs);
  for (std::size_t i = 0; i < graph.inputs.size(); ++i)
    graph.value(graph.inputs[i]).name = Symbol(signature.inputs[i].name);
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    const bool named = i < signature.outputs.size() && !signature.outputs[i].name.empty();
    graph::Value& value = graph.value(graph.outputs[i]);
    check(value.name.empty(), "[model] expected outputs that are no inputs and all different, got '{}' again",
          value.name.str());
    value.name = Symbol(named ? signature.outputs[i].name : i == 0 ? "output" : fmt::format("output_{}", i));
  }
  return std::move(graph);
}

std::vector<ModelField> output_fields(const graph::Graph& graph, std::int64_t batch) {
  std::vector<ModelField> fields;
  for (const graph::ValueId id : graph.outputs) {
    const graph::Value& value = graph.value(id);
    check(value.type.shape.rank() > 0 && value.type.shape[0] == batch,
          "[model] expected outputs with the batch as their first axis, got '{}' of {} for a batch of {}",
          value.name.str(), to_string(value.type), batch);
    ModelField field{value.name.str(), value.type.dtype, {}};
    for (int axis = 1; axis < value.type.shape.rank(); ++axis) field.sample.push_back(value.type.shape[axis]);
    fields.push_back(std::move(field));
  }
  return fields;
}

std::vector<NamedTensor> weights_of(const graph::Graph& graph) {
  std::vector<NamedTensor> weights;
  for (const auto& variable : graph.variables) {
    check(variable.tensor.defined(), "[model] expected a tensor for '{}', got none", variable.name);
    weights.push_back({variable.name, variable.tensor});
  }
  return weights;
}

Result<void> write_weight(FileWriter& file, const NamedTensor& weight, const train::FetchBytes& fetch) {
  Result<void> written;
  const auto write = [&](std::span<const std::byte> bytes) { return (written = file.write(bytes)).ok(); };
  if (fetch && !weight.tensor.impl()->storage)
    fetch({weight.tensor.name(), weight.tensor}, write);
  else
    data::for_host_pieces(data::on_host(weight.tensor), write);
  return written;
}

Result<train::ListedFile> write_weights(const fs::path& folder, const std::vector<NamedTensor>& weights,
                                        const train::FetchBytes& fetch) {
  auto file = FileWriter::create(folder / kWeights);
  if (!file) return file.failure();
  if (auto written = file->write(data::safetensors_head(weights)); !written) return written.failure();
  for (const std::size_t i : data::safetensors_order(weights)) {
    if (auto written = write_weight(*file, weights[i], fetch); !written) return written.failure();
  }
  if (auto done = file->finish(); !done) return done.failure();
  return train::ListedFile{kWeights, file->size(), file->checksum()};
}

Result<train::ListedFile> write_text(const fs::path& folder, const char* name, const std::string& text) {
  auto file = FileWriter::create(folder / name);
  if (!file) return file.failure();
  if (auto written = file->write(text); !written) return written.failure();
  if (auto done = file->finish(); !done) return done.failure();
  return train::ListedFile{name, file->size(), file->checksum()};
}

}  // namespace

Result<void> save_model(const fs::path& folder, const graph::TraceFn& f, ModelSignature signature,
                        const train::FetchBytes& fetch) {
  check(!signature.inputs.empty(), "[model] expected at least one input, got none");
  const graph::Graph graph = traced(f, signature, 2);
  train::check_model_graph(graph, kAnyBytes);
  const std::string text =
      train::free_batch([&](std::int64_t batch) { return print(batch == 2 ? graph : traced(f, signature, batch)); });
  signature.outputs = output_fields(graph, 2);

  auto temporary = TemporaryFolder::create(folder);
  if (!temporary) return temporary.failure();
  auto weights = write_weights(temporary->path(), weights_of(graph), fetch);
  if (!weights) return weights.failure();
  auto written = write_text(temporary->path(), kGraph, text);
  if (!written) return written.failure();
  const ModelManifest manifest{kGraph, kWeights, {*written, *weights}, std::move(signature)};
  if (auto done = write_text(temporary->path(), "model.json", format_model_manifest(manifest)); !done)
    return done.failure();
  return temporary->publish();
}

}  // namespace starling
