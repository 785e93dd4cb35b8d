#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "convert.h"
#include "dense.h"
#include "interruptible.h"
#include "starling/base/error.h"
#include "starling/ops/def/apply.h"
#include "starling/train/saved_model/saved_model.h"

namespace starling::python {
namespace {

ModelSignature signature_of(nb::handle inputs, const std::vector<std::string>& outputs, nb::dict about) {
  ModelSignature signature;
  for (nb::handle input : inputs)
    signature.inputs.push_back({.name = nb::cast<std::string>(input[0]),
                                .dtype = nb::cast<DType>(input[1]),
                                .sample = nb::cast<Shape>(input[2])});
  for (const auto& name : outputs) signature.outputs.push_back({.name = name});
  signature.task = nb::cast<std::string>(about["task"]);
  signature.class_names = nb::cast<std::vector<std::string>>(about["class_names"]);
  signature.about = nlohmann::json::parse(nb::cast<std::string>(about["about"]));
  return signature;
}

// Traces function(*inputs), which Python code may be, and writes what it did.
void save_function(const std::string& folder, nb::handle function, nb::handle inputs,
                   const std::vector<std::string>& outputs, nb::dict about) {
  const auto traced = [&](std::span<const Tensor> in) {
    nb::list arguments;
    for (const Tensor& each : in) arguments.append(each);
    const nb::object made = function(*nb::tuple(arguments));
    if (nb::isinstance<nb::dict>(made))
      throw nb::type_error(
          "[save_model] expected a tensor or a tuple of them as the result, got a dict: return its "
          "values, and name them by outputs=[...]");
    const bool several = nb::isinstance<nb::tuple>(made) || nb::isinstance<nb::list>(made);
    const std::vector<Tensor> results = several ? to_tensors(made) : std::vector<Tensor>{to_tensor(made)};
    TensorList all;
    for (const Tensor& result : results) all.push_back(result);
    return all;
  };
  const NoGrad off;
  save_model(folder, traced, signature_of(inputs, outputs, about)).value();
}

void bind_saved_model(nb::module_& m) {
  nb::class_<SavedModel>(m, "SavedModel", "A trained network in a folder.")
      .def(
          "__init__",
          [](SavedModel* self, const std::string& folder) {
            auto loaded = [&] {
              const nb::gil_scoped_release release;
              return SavedModel::load(folder);
            }();
            if (!loaded.ok()) throw Error(loaded.error());
            new (self) SavedModel(std::move(loaded.value()));
          },
          nb::arg("folder"))
      .def(
          "__call__",
          [](SavedModel& self, nb::args inputs) {
            std::vector<Tensor> in;
            for (nb::handle input : inputs) in.push_back(dense(to_tensor(input, std::nullopt, true)));
            return to_python(without_gil([&] { return self.run(in); }));
          },
          nb::arg("inputs"))
      .def("__repr__",
           [](const SavedModel& self) { return fmt::format("SavedModel({} parameters)", self.parameter_count()); })
      .def_prop_ro("parameter_count", &SavedModel::parameter_count, "Number of trained numbers.")
      .def_prop_ro(
          "weights",
          [](const SavedModel& self) {
            nb::dict weights;
            for (const auto& [name, tensor] : self.weights()) weights[name.c_str()] = tensor;
            return weights;
          },
          "Weights by name: memory of the mapped file, which may not be written.");
}

}  // namespace

void bind_saved_models(nb::module_& m) {
  bind_saved_model(m);
  m.def("_save_model", &save_function, nb::arg("folder"), nb::arg("function"), nb::arg("inputs"), nb::arg("outputs"),
        nb::arg("about"));
}

}  // namespace starling::python
