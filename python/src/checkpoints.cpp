#include "checkpoints.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <charconv>

#include "bind.h"
#include "convert.h"
#include "dense.h"
#include "starling/base/error.h"
#include "starling/train/checkpoint/environment.h"

namespace starling::python {
namespace {

constexpr std::string_view kOfRank = "rank.";

// Tensors that lie in mapped files: copied where they are read, without the GIL.
LoadedState loaded_by_one(const LoadedCheckpoint& found) {
  const Checkpoint& checkpoint = found.checkpoint;
  LoadedState loaded{.step = checkpoint.step, .told = told_of(checkpoint, 0, 1), .skipped = found.skipped};
  loaded.differences = differences_of(checkpoint);
  for (const auto& [name, tensor] : checkpoint.tensors) loaded.tensors.push_back({name, dense_copy(tensor)});
  return loaded;
}

// What Python keeps of a loop beside its tensors goes into the checkpoint's JSON as it is.
std::string save_checkpoint(const CheckpointFolder& folder, std::int64_t step, nb::dict tensors,
                            const std::string& told) {
  Checkpoint checkpoint;
  checkpoint.step = step;
  for (auto [name, value] : tensors)
    checkpoint.tensors.push_back(
        {expect_text(name, "[checkpoints] expected names as keys"), dense(to_tensor(value).detach())});
  const nb::gil_scoped_release release;
  keep_told(checkpoint, {nlohmann::json::parse(told)});
  return folder.save(checkpoint).value().string();
}

nb::object load_checkpoint(const CheckpointFolder& folder, std::optional<std::int64_t> step) {
  std::optional<LoadedState> loaded;
  {
    const nb::gil_scoped_release release;
    if (const auto found = read_checkpoint(folder, step)) loaded = loaded_by_one(*found);
  }
  return loaded ? to_python(*loaded) : nb::none();
}

}  // namespace

nb::object to_python(const LoadedState& loaded) {
  nb::dict tensors;
  for (const auto& [name, tensor] : loaded.tensors) tensors[name.c_str()] = tensor;
  return nb::make_tuple(loaded.step, tensors, loaded.told, nb::cast(loaded.skipped), nb::cast(loaded.differences));
}

std::optional<LoadedCheckpoint> read_checkpoint(const CheckpointFolder& folder, std::optional<std::int64_t> step) {
  if (step) return LoadedCheckpoint{folder.load(*step).value(), {}};
  if (folder.steps().empty()) return std::nullopt;
  return folder.load_latest().value();
}

void keep_told(Checkpoint& checkpoint, const std::vector<nlohmann::json>& of_ranks) {
  checkpoint.extra["python"] = of_ranks.front();
  checkpoint.extra["environment"] = train::environment_facts();
  if (of_ranks.size() == 1) return;
  nlohmann::json& ranks = checkpoint.extra["ranks"] = {{"size", of_ranks.size()}};
  const bool alike = std::all_of(of_ranks.begin(), of_ranks.end(), [&](const auto& one) { return one == of_ranks[0]; });
  if (!alike) ranks["python"] = of_ranks;
}

std::string told_of(const Checkpoint& checkpoint, int rank, int ranks) {
  const nlohmann::json& extra = checkpoint.extra;
  check(extra.contains("python"),
        "[checkpoints] expected a checkpoint of a loop of one's own, got one of a trainer: Trainer(resume=True) goes "
        "on from it");
  const nlohmann::json of_ranks = extra.value("ranks", nlohmann::json::object());
  const auto& tensors = checkpoint.tensors;
  const bool differed = of_ranks.contains("python") || std::any_of(tensors.begin(), tensors.end(), [](const auto& one) {
                          return kept_name(one.name).rank.has_value();
                        });
  const int saved = of_ranks.value("size", 1);
  check(!differed || saved == ranks,
        "[checkpoints] expected {} ranks, as many as saved this checkpoint, whose states differ (random numbers, "
        "loaders or tensors of each), got {}",
        saved, ranks);
  return (of_ranks.contains("python") ? of_ranks.at("python").at(static_cast<std::size_t>(rank)) : extra.at("python"))
      .dump();
}

std::vector<std::string> differences_of(const Checkpoint& checkpoint) {
  const auto before = checkpoint.extra.value("environment", nlohmann::json::object());
  return train::environment_differences(before, train::environment_facts());
}

KeptName kept_name(const std::string& name) {
  if (!name.starts_with(kOfRank)) return {std::nullopt, name};
  int rank = 0;
  const char* const end = name.data() + name.size();
  const auto [point, error] = std::from_chars(name.data() + kOfRank.size(), end, rank);
  if (error != std::errc() || point == end || *point != '.') return {std::nullopt, name};
  return {rank, std::string(point + 1, end)};
}

void bind_checkpoints(nb::module_& m) {
  nb::class_<CheckpointFolder>(m, "CheckpointFolder", "Checkpoints of one process, a folder each.")
      .def(
          "__init__",
          [](CheckpointFolder* self, const std::string& folder, int keep) {
            new (self) CheckpointFolder(folder, keep);
          },
          nb::arg("folder"), nb::arg("keep"))
      .def("save", &save_checkpoint, nb::arg("step"), nb::arg("tensors"), nb::arg("told"),
           "Writes a checkpoint whole or not at all; returns its folder.")
      .def("load", &load_checkpoint, nb::arg("step").none(),
           "(step, tensors, told, skipped, differences) of the newest intact checkpoint, or None.")
      .def("steps", &CheckpointFolder::steps, "Steps of which there is a checkpoint.");
  bind_rank_checkpoints(m);
}

}  // namespace starling::python
