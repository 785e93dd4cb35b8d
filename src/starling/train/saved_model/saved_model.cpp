#include "starling/train/saved_model/saved_model.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "starling/base/bytes.h"
#include "starling/base/error.h"
#include "starling/base/file/file.h"
#include "starling/base/file/mapped_guard.h"
#include "starling/base/file/safe_path.h"
#include "starling/data/formats/safetensors.h"
#include "starling/graph/parser.h"
#include "starling/runtime/program.h"
#include "starling/train/saved_model/batch_text.h"
#include "starling/train/saved_model/program_rules.h"

namespace starling {
namespace {

namespace fs = std::filesystem;

constexpr const char* kManifest = "model.json";
constexpr std::size_t kMostManifestBytes = std::size_t{64} << 20;
constexpr std::size_t kMostGraphBytes = std::size_t{64} << 20;
constexpr std::int64_t kMostBatch = std::int64_t{1} << 30;

Result<ModelManifest> load_manifest(const fs::path& folder) {
  auto fd = open_beneath(folder, kManifest);
  if (!fd) return fd.failure();
  auto text = read_file(*fd, (folder / kManifest).string(), kMostManifestBytes);
  if (!text) return text.failure();
  return attempt([&] { return parse_model_manifest(*text, (folder / kManifest).string()); });
}

// Maps the file of that name if it is listed, lies beneath the folder and matches its entry.
Result<std::shared_ptr<const MappedFile>> map_named(const fs::path& folder, const ModelManifest& manifest,
                                                    const std::string& name) {
  const auto listed = std::find_if(manifest.files.begin(), manifest.files.end(),
                                   [&](const train::ListedFile& file) { return file.name == name; });
  if (listed == manifest.files.end())
    return failure("[model] {}: expected '{}' among its files, got none", folder.string(), name);
  return map_listed(folder, *listed, "model");
}

Shape batched(std::int64_t batch, Shape sample) {
  sample.insert(0, batch);
  return sample;
}

void check_field(const graph::Graph& graph, graph::ValueId id, const ModelField& field, std::int64_t batch,
                 const char* what) {
  const graph::Value& value = graph.value(id);
  const TensorType wanted{field.dtype, batched(batch, field.sample)};
  check(value.type == wanted && value.name.str() == field.name,
        "[model] expected the {} '{}' of {} as the signature says, got '{}' of {} in the graph", what, field.name,
        to_string(wanted), value.name.str(), to_string(value.type));
}

void check_signature(const graph::Graph& graph, const ModelSignature& signature, std::int64_t batch) {
  check(graph.inputs.size() == signature.inputs.size() && graph.outputs.size() == signature.outputs.size(),
        "[model] expected {} inputs and {} outputs as the signature says, got {} and {} in the graph",
        signature.inputs.size(), signature.outputs.size(), graph.inputs.size(), graph.outputs.size());
  for (std::size_t i = 0; i < graph.inputs.size(); ++i)
    check_field(graph, graph.inputs[i], signature.inputs[i], batch, "input");
  for (std::size_t i = 0; i < graph.outputs.size(); ++i)
    check_field(graph, graph.outputs[i], signature.outputs[i], batch, "output");
}

}  // namespace

struct SavedModel::State {
  struct Entry {
    std::int64_t batch = 0;
    std::unique_ptr<runtime::Program> program;
    std::vector<TensorType> outputs;
  };

  ModelSignature signature;
  SavedModelOptions options;
  std::string graph_text;
  Container weights;
  std::mutex mutex;
  std::vector<Entry> entries;  // most recently used first

  graph::Graph graph(std::int64_t batch) const {
    graph::Graph made = graph::parse_graph(train::with_batch(graph_text, batch));
    train::check_model_graph(made, options.most_bytes);
    check_signature(made, signature, batch);
    return made;
  }

  Entry& entry_for(std::int64_t batch) {
    const auto found =
        std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) { return entry.batch == batch; });
    if (found != entries.end()) {
      std::rotate(entries.begin(), found, found + 1);
      return entries.front();
    }
    const graph::Graph made = graph(batch);
    Entry entry{.batch = batch, .program = nullptr, .outputs = {}};
    entry.program = runtime::SingleStrategy().build(
        made, weights, {.program = {.threads = options.threads}, .arguments = made.inputs.size()});
    for (const graph::ValueId id : made.outputs) entry.outputs.push_back(made.value(id).type);
    if (entries.size() >= options.cache) entries.pop_back();
    entries.insert(entries.begin(), std::move(entry));
    return entries.front();
  }
};

SavedModel::SavedModel(std::unique_ptr<State> state) : state_(std::move(state)) {}
SavedModel::SavedModel(SavedModel&&) noexcept = default;
SavedModel& SavedModel::operator=(SavedModel&&) noexcept = default;
SavedModel::~SavedModel() = default;

bool is_saved_model(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / kManifest, ignored);
}

Result<SavedModel> SavedModel::load(const fs::path& folder, const SavedModelOptions& options) {
  check(options.cache > 0, "[model] expected a cache of at least one program, got {}", options.cache);
  auto manifest = load_manifest(folder);
  if (!manifest) return manifest.failure();
  auto graph = map_named(folder, *manifest, manifest->graph);
  if (!graph) return graph.failure();
  if ((*graph)->bytes().size() > kMostGraphBytes) {
    return failure("[model] {}: expected a graph of at most {} bytes, got {}", folder.string(), kMostGraphBytes,
                   (*graph)->bytes().size());
  }
  auto weights = map_named(folder, *manifest, manifest->weights);
  if (!weights) return weights.failure();
  auto tensors = data::SafetensorsFile::open(std::move(*weights), (folder / manifest->weights).string());
  if (!tensors) return tensors.failure();
  auto state = std::make_unique<State>();
  state->signature = std::move(manifest->signature);
  state->options = options;
  state->graph_text = as_text((*graph)->bytes());
  auto sound = attempt([&] {
    for (auto& [name, tensor] : tensors->tensors()) state->weights.set(name, tensor);
    static_cast<void>(state->weights.bind(state->graph(1)));
  });
  if (!sound) return failure("{} (in {})", sound.error(), folder.string());
  return SavedModel(std::move(state));
}

const ModelSignature& SavedModel::signature() const { return state_->signature; }

graph::Graph SavedModel::graph(std::int64_t batch) const { return state_->graph(batch); }

std::int64_t SavedModel::parameter_count() const {
  std::int64_t count = 0;
  for (const auto& [name, tensor] : state_->weights.entries()) count += tensor.numel();
  return count;
}

std::vector<NamedTensor> SavedModel::weights() const {
  std::vector<NamedTensor> all;
  for (const auto& [name, tensor] : state_->weights.entries()) all.push_back({name, tensor});
  return all;
}

TensorList SavedModel::run(std::span<const Tensor> inputs) {
  const auto& wanted = signature().inputs;
  check(inputs.size() == wanted.size(), "[model] expected {} inputs, got {}", wanted.size(), inputs.size());
  const bool has_batch = inputs[0].defined() && inputs[0].rank() > 0;
  const std::int64_t batch = has_batch ? inputs[0].size(0) : 0;
  std::vector<Tensor> dense;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const TensorType type{wanted[i].dtype, batched(batch, wanted[i].sample)};
    const bool fits = has_batch && inputs[i].defined() && inputs[i].type() == type && inputs[i].device() == kCpu;
    if (!fits) {
      fail("[model] expected the input '{}' of {} on the CPU, n samples like every input, got {}", wanted[i].name,
           to_string(TensorType{wanted[i].dtype, batched(1, wanted[i].sample)}),
           inputs[i].defined() ? to_string(inputs[i].type()) : "nothing");
    }
    dense.push_back(data::on_host(inputs[i]));
  }
  TensorList outputs;
  if (batch == 0) {
    for (const auto& field : signature().outputs) outputs.push_back(empty(batched(0, field.sample), field.dtype));
    return outputs;
  }
  check(batch <= kMostBatch, "[model] expected a batch of at most {} samples, got {}", kMostBatch, batch);
  const std::lock_guard held(state_->mutex);
  State::Entry& entry = state_->entry_for(batch);
  for (const auto& type : entry.outputs) outputs.push_back(empty(type.shape, type.dtype));
  entry.program->run(dense, {outputs.data(), outputs.size()});
  for (const auto& [name, weight] : state_->weights.entries()) check_mapped(weight.raw());  // views of a file
  return outputs;
}

Tensor SavedModel::run(const Tensor& input) {
  check(signature().outputs.size() == 1, "[model] expected a model with one output, got {}",
        signature().outputs.size());
  return run({&input, 1})[0];
}

}  // namespace starling
