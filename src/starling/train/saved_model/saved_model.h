#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "starling/base/result.h"
#include "starling/graph/tracer.h"
#include "starling/train/checkpoint/checkpoint.h"
#include "starling/train/saved_model/signature.h"

namespace starling {

struct SavedModelOptions {
  int threads = 0;                                     // 0: all that parallel_for may use
  std::size_t cache = 8;                               // compiled programs kept, one per batch size
  std::uint64_t most_bytes = std::uint64_t{64} << 30;  // limit of all values of one program
};

// A trained network in a folder: model.json (signature, checksums), graph.txt (its program for any batch size, see
// batch_text.h) and weights.safetensors. Data only: loading runs nothing, and a graph that accesses files or anything
// else outside itself is refused. The folder is not trusted: names must stay beneath it, and checksums and sizes are
// verified before anything is allocated.
class SavedModel {
 public:
  // Weights are views of the mapped file, which must not be truncated while in use.
  static Result<SavedModel> load(const std::filesystem::path& folder, const SavedModelOptions& options = {});
  SavedModel(SavedModel&&) noexcept;
  SavedModel& operator=(SavedModel&&) noexcept;
  ~SavedModel();

  const ModelSignature& signature() const;

  // Runs the model: one tensor per signature().inputs, [n, …] contiguous on the CPU with the same n; returns the
  // outputs in order. Compiles a program for each new n. Thread-safe, but calls are serialised. Throws naming the
  // input, what was expected and what was given.
  TensorList run(std::span<const Tensor> inputs);
  Tensor run(const Tensor& input);  // for models with one input and one output

  graph::Graph graph(std::int64_t batch) const;  // program before any pass; variables have no tensors
  std::int64_t parameter_count() const;          // number of elements of all weights
  std::vector<NamedTensor> weights() const;

 private:
  struct State;
  explicit SavedModel(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// True if the folder holds a saved model: it has a model.json.
bool is_saved_model(const std::filesystem::path& folder);

// Traces `f` and writes it as a saved model, atomically; an existing one is replaced. `signature.inputs` are its
// inputs. Types and shapes of the outputs are derived; their names are those of `signature.outputs` as far as given,
// else "output", "output_1", …. Networks should be in eval mode, under NoGrad. Tensors that f reads become weights.
// Throws on what cannot be saved: assigned variables, effects, sizes that are not linear in the batch. Weights without
// memory, of which ranks store pieces, come by `fetch`, by their names.
Result<void> save_model(const std::filesystem::path& folder, const graph::TraceFn& f, ModelSignature signature,
                        const train::FetchBytes& fetch = {});

}  // namespace starling
