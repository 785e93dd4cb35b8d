#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "starling/base/result.h"
#include "starling/data/host_bytes.h"
#include "starling/graph/tracer.h"
#include "starling/train/saved_model/signature.h"

namespace starling {

struct SavedModelOptions {
  int threads = 0;                                     // 0: as many as parallel_for may use
  std::size_t cache = 8;                               // programs kept, one for each batch size
  std::uint64_t most_bytes = std::uint64_t{64} << 30;  // of all values of one program; larger ones are refused
};

// A trained network as a folder: model.json (signature, checksums), graph.txt (its program for any batch size, see
// batch_text.h) and weights.safetensors. Data only: loading runs nothing, and a graph that touches files or anything
// else outside of itself is refused. The folder is not trusted: names stay beneath it, checksums and sizes are verified
// before anything is allocated for them.
class SavedModel {
 public:
  // Weights are views of the mapped file, which must not be truncated meanwhile.
  static Result<SavedModel> load(const std::filesystem::path& folder, const SavedModelOptions& options = {});
  SavedModel(SavedModel&&) noexcept;
  SavedModel& operator=(SavedModel&&) noexcept;
  ~SavedModel();

  const ModelSignature& signature() const;

  // One tensor for each of signature().inputs, [n, …] dense on a CPU with the same n; the outputs in order. A program
  // is compiled for each n that is new. May be called from several threads, which wait for each other. Throws naming
  // the input, what was expected and what was given.
  TensorList run(std::span<const Tensor> inputs);
  Tensor run(const Tensor& input);  // of a model with one input and one output

  Graph graph(std::int64_t batch) const;  // its program before any pass; variables without tensors
  std::int64_t parameter_count() const;   // elements of all weights
  std::vector<NamedTensor> weights() const;

 private:
  struct State;
  explicit SavedModel(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Whether a folder holds a saved model: it has a model.json.
bool is_saved_model(const std::filesystem::path& folder);

// Writes what `f` computes from inputs as a saved model, as a whole or not at all; what was there is replaced.
// `signature.inputs` say what it takes; types and shapes of the outputs follow from it, their names are taken from
// `signature.outputs` as far as it has them, else "output", "output_1", …. Networks belong in eval mode, under NoGrad.
// Tensors that f reads become weights. Throws on what cannot be saved: assigning variables, effects, sizes that do not
// grow with the batch.
Result<void> save_model(const std::filesystem::path& folder, const TraceFn& f, ModelSignature signature);

}  // namespace starling
