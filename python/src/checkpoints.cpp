#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "convert.h"
#include "dense.h"
#include "starling/train/checkpoint/checkpoint.h"
#include "starling/train/checkpoint/environment.h"

namespace starling::python {
namespace {

// What Python keeps of a loop beside its tensors goes into the checkpoint's JSON as it is.
std::string save_checkpoint(const CheckpointFolder& folder, std::int64_t step, nb::dict tensors,
                            const std::string& extra) {
  Checkpoint checkpoint;
  checkpoint.step = step;
  for (auto [name, value] : tensors)
    checkpoint.tensors.push_back(
        {expect_text(name, "[checkpoints] expected names as keys"), dense(to_tensor(value).detach())});
  checkpoint.extra["python"] = nlohmann::json::parse(extra);
  checkpoint.extra["environment"] = train::environment_facts();
  const nb::gil_scoped_release release;
  return folder.save(checkpoint).value().string();
}

nb::object loaded_checkpoint(const Checkpoint& checkpoint, const std::vector<std::string>& skipped) {
  check(checkpoint.extra.contains("python"),
        "[checkpoints] expected a checkpoint of a loop of one's own, got one of a trainer: Trainer(resume=True) goes "
        "on from it");
  nb::dict tensors;
  for (const auto& [name, tensor] : checkpoint.tensors) tensors[name.c_str()] = dense_copy(tensor);
  const auto before = checkpoint.extra.value("environment", nlohmann::json::object());
  const auto differences = train::environment_differences(before, train::environment_facts());
  return nb::make_tuple(checkpoint.step, tensors, checkpoint.extra.at("python").dump(), nb::cast(skipped),
                        nb::cast(differences));
}

nb::object load_checkpoint(const CheckpointFolder& folder, std::optional<std::int64_t> step) {
  if (step) return loaded_checkpoint(folder.load(*step).value(), {});
  if (folder.steps().empty()) return nb::none();
  const auto latest = folder.load_latest().value();
  return loaded_checkpoint(latest.checkpoint, latest.skipped);
}

}  // namespace

void bind_checkpoints(nb::module_& m) {
  nb::class_<CheckpointFolder>(m, "CheckpointFolder")
      .def(
          "__init__",
          [](CheckpointFolder* self, const std::string& folder, int keep) {
            new (self) CheckpointFolder(folder, keep);
          },
          nb::arg("folder"), nb::arg("keep"))
      .def("save", &save_checkpoint, nb::arg("step"), nb::arg("tensors"), nb::arg("extra"))
      .def("load", &load_checkpoint, nb::arg("step").none())
      .def("steps", &CheckpointFolder::steps);
}

}  // namespace starling::python
