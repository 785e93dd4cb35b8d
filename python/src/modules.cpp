#include <fmt/format.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "convert.h"
#include "held.h"
#include "interruptible.h"
#include "starling/nn/module.h"
#include "starling/nn/summary.h"
#include "starling/ops/def/scopes/scope.h"
#include "states.h"

namespace starling::python {
namespace {

nb::dict named(const nn::NamedTensors& tensors) {
  nb::dict all;
  for (const auto& [name, tensor] : tensors) all[name.c_str()] = tensor;
  return all;
}

nb::object called(nn::Module& self, nb::args xs) {
  std::vector<Tensor> in;
  for (nb::handle x : xs) in.push_back(x.is_none() ? Tensor() : to_tensor(x));
  if (in.size() == 1) return nb::cast(without_gil([&] { return self(in[0]); }));
  return to_python(without_gil([&] { return self(std::span<const Tensor>(in)); }));
}

nn::LoadReport load(nn::Module& self, nb::dict state, bool strict) {
  nn::NamedTensors tensors;
  for (auto [name, value] : state)
    tensors.emplace_back(expect_text(name, "[load_state_dict] expected names as keys"),
                         to_tensor(value, std::nullopt, true));
  return load_named(self.state(), tensors, {.strict = strict});
}

nb::tuple tuple_of(std::span<const Tensor> tensors) {
  nb::list all;
  for (const Tensor& tensor : tensors) all.append(tensor.defined() ? nb::cast(tensor) : nb::none());
  return nb::tuple(all);
}

// before(inputs) and after(inputs, outputs) of a layer of the library look on: what they return is not used.
int add_hooks(nn::Module& self, nb::object before, nb::object after) {
  nn::CallHooks hooks;
  if (!before.is_none())
    hooks.before = [f = held(std::move(before))](nn::Module&, std::span<const Tensor> in) {
      const nb::gil_scoped_acquire gil;
      (*f)(tuple_of(in));
    };
  if (!after.is_none())
    hooks.after = [f = held(std::move(after))](nn::Module&, std::span<const Tensor> in, std::span<const Tensor> out) {
      const nb::gil_scoped_acquire gil;
      const nb::tuple results = tuple_of(out);
      (*f)(tuple_of(in), out.size() == 1 ? nb::object(results[0]) : nb::object(results));
    };
  return self.add_hooks(std::move(hooks));
}

void bind_module(nb::module_& m) {
  nb::class_<nn::LoadReport>(m, "LoadReport", "What load_state_dict() did.")
      .def_ro("loaded", &nn::LoadReport::loaded, "Number of tensors that were loaded.")
      .def_ro("missing", &nn::LoadReport::missing, "Names of the module that the state has not.")
      .def_ro("unexpected", &nn::LoadReport::unexpected, "Names of the state that the module has not.")
      .def("__repr__", &nn::LoadReport::print);
  nb::class_<nn::Module>(m, "ModuleBase", nb::dynamic_attr(), nb::is_weak_referenceable(),
                         "A network or a part of one.")
      .def("__call__", &called, nb::arg("inputs"))
      .def("parameters", &nn::Module::parameters, "Parameters of this module and all below it, in order.")
      .def("trainable_parameters", &nn::Module::trainable_parameters, "Those of parameters() that want gradients.")
      .def(
          "named_parameters", [](const nn::Module& self) { return named(self.named_parameters()); },
          "Parameters of this module and all below it by their paths: a dict.")
      .def(
          "named_buffers", [](const nn::Module& self) { return named(self.named_buffers()); },
          "State without gradients, such as running statistics, by its paths: a dict.")
      .def_prop_ro("parameter_count", &nn::Module::parameter_count, "Number of trained numbers.")
      .def(
          "state_dict", [](const nn::Module& self) { return named(self.state()); },
          "Parameters and buffers by name: the tensors themselves.")
      .def("load_state_dict", &load, nb::arg("state"), nb::arg("strict") = true,
           "Copies tensors by their names. strict=False: those that fit. Returns what was loaded, missing and "
           "unexpected.")
      .def(
          "train",
          [](nb::object self, bool on) {
            nb::cast<nn::Module&>(self).train(on);
            return self;
          },
          nb::arg("on") = true, "Layers such as dropout work as in training, here and below; returns the module.")
      .def(
          "eval",
          [](nb::object self) {
            nb::cast<nn::Module&>(self).eval();
            return self;
          },
          "Layers such as dropout work as after training, here and below; returns the module.")
      .def_prop_ro("training", &nn::Module::training, "Whether it works as in training.")
      .def("freeze", &nn::Module::freeze, nb::arg("on") = true, "Its parameters want no gradients any more.")
      .def("unfreeze", &nn::Module::unfreeze, "Its parameters want gradients again.")
      .def(
          "to",
          [](nb::object self, nb::handle target) {
            auto& module = nb::cast<nn::Module&>(self);
            if (const auto dtype = dtype_from(target)) {
              module.to(*dtype);
              return self;
            }
            const auto device = device_from(target);
            check(device.has_value(), "[to] expected a dtype or a device, such as \"f16\" or \"cuda:0\"");
            module.to(*device);
            return self;
          },
          nb::arg("target"),
          "Parameters and buffers in another dtype or on another device, in place; returns the module.")
      .def(
          "_rename", [](nn::Module& self) { self.set_name(self.name()); },
          "Names parameters by where they are first, shared ones too.")
      .def(
          "find", [](nn::Module& self, const std::string& path) -> nn::Module& { return self.find(path); },
          nb::arg("path"), nb::rv_policy::reference_internal, "The part at a path of names: find(\"block.fc\").")
      .def_prop_ro(
          "children",
          [](const nn::Module& self) {
            nb::dict children;
            for (const auto& [name, child] : self.children()) children[name.c_str()] = child;
            return children;
          },
          "The parts of this module by their names.")
      .def("_add_hooks", &add_hooks, nb::arg("before").none(), nb::arg("after").none())
      .def("_remove_hooks", &nn::Module::remove_hooks, nb::arg("number"))
      .def_prop_rw("name", &nn::Module::name, &nn::Module::set_name, "Its path in the network.")
      .def_prop_ro("kind", &nn::Module::kind, "What it is, in a word.")
      .def("__repr__",
           [](const nn::Module& self) { return fmt::format("{}({} parameters)", self.kind(), self.parameter_count()); })
      .def(
          "summary",
          [](nn::Module& self, const Shape& sample, DType dtype) {
            return nn::summary(self, sample, {.dtype = dtype}).text();
          },
          nb::arg("sample"), nb::arg("dtype") = DType::f32, "A table of layers for samples of this shape.");
  m.def(
      "_is_made", [](nb::handle given) { return !nb::inst_check(given) || nb::inst_ready(given); }, nb::arg("given"),
      "False: super().__init__() was not called.");
}

// with scope("name"): names nodes of graphs and seeds random numbers, as a module's call does.
struct PyScope {
  explicit PyScope(std::string given) : name(std::move(given)) {}
  PyScope(const PyScope&) = delete;

  std::string name;
  std::vector<std::unique_ptr<NameScope>> entered{};
};

}  // namespace

void bind_modules(nb::module_& m) {
  bind_module(m);
  nb::class_<PyScope>(m, "Scope",
                      "with Scope(name): names nodes of graphs and random numbers, as a module's call does.")
      .def(
          "__init__", [](PyScope* self, const std::string& name) { new (self) PyScope(name); }, nb::arg("name"))
      .def("__enter__", [](PyScope& self) { self.entered.push_back(std::make_unique<NameScope>(self.name)); })
      .def(
          "__exit__",
          [](PyScope& self, nb::args) {
            check(!self.entered.empty(), "[scope] expected a scope that was entered");
            self.entered.pop_back();
          },
          nb::arg("reason"));
}

}  // namespace starling::python
