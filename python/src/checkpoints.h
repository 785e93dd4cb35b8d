#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "starling/tensor/named_tensor.h"
#include "starling/train/checkpoint/checkpoint.h"

namespace starling::python {

namespace nb = nanobind;

// What one rank puts back of a checkpoint of a loop of one's own.
struct LoadedState {
  std::int64_t step = 0;
  std::vector<NamedTensor> tensors{};
  std::string told{};                      // as JSON: what is no tensor
  std::vector<std::string> skipped{};      // newer but damaged checkpoints, each with the reason
  std::vector<std::string> differences{};  // between the machine that saved and this one
};
nb::object to_python(const LoadedState& loaded);  // a tuple of these; needs the GIL

// The newest intact checkpoint, or that of a step; none: there is none. Reads files: not for use with the GIL held.
std::optional<LoadedCheckpoint> read_checkpoint(const CheckpointFolder& folder, std::optional<std::int64_t> step);

// What ranks tell of themselves beside tensors, as JSON: what is equal everywhere is kept once.
void keep_told(Checkpoint& checkpoint, const std::vector<nlohmann::json>& of_ranks);
// That of one of `ranks` ranks, which may be others than those that saved where nothing differed among these.
std::string told_of(const Checkpoint& checkpoint, int rank, int ranks);
std::vector<std::string> differences_of(const Checkpoint& checkpoint);

// A tensor of a checkpoint as a rank sees it: names of what differed among ranks begin with rank.<r>.
struct KeptName {
  std::optional<int> rank;  // none: every rank's
  std::string name;
};
KeptName kept_name(const std::string& name);

}  // namespace starling::python
