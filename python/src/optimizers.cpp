#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "convert.h"
#include "starling/nn/state.h"
#include "starling/optim/clip.h"
#include "starling/optim/optimizer_kinds.h"

namespace starling::python {
namespace {

std::vector<optim::ParameterGroup> groups_of(nb::handle parameters) {
  std::vector<optim::ParameterGroup> groups;
  std::vector<Tensor> plain;
  for (nb::handle item : parameters) {
    if (!nb::isinstance<nb::dict>(item)) {
      plain.push_back(nb::cast<Tensor>(item));
      continue;
    }
    optim::ParameterGroup group;
    for (auto [key, value] : nb::borrow<nb::dict>(item)) {
      const auto name = nb::cast<std::string>(key);
      if (name == "params")
        group.parameters = to_tensors(value);
      else if (name == "lr_scale")
        group.lr_scale = scalar_value(value);
      else if (name == "weight_decay")
        group.weight_decay = scalar_value(value);
      else
        fail("[optim] expected params, lr_scale and weight_decay in a group, got '{}'", name);
    }
    groups.push_back(std::move(group));
  }
  if (!plain.empty()) groups.push_back({.parameters = std::move(plain)});
  return groups;
}

}  // namespace

void bind_optimizers(nb::module_& m) {
  nb::class_<optim::Optimizer>(m, "OptimizerBase")
      .def(
          "step",
          [](optim::Optimizer& self) {
            const nb::gil_scoped_release release;
            self.step();
          },
          "Updates every parameter that has a gradient, and empties the gradients.")
      .def_prop_rw("lr", &optim::Optimizer::lr, &optim::Optimizer::set_lr)
      .def("parameters", &optim::Optimizer::parameters)
      .def("state_dict",
           [](const optim::Optimizer& self) {
             nb::dict state;
             for (const auto& [name, tensor] : self.state()) state[name.c_str()] = tensor;
             return state;
           })
      .def(
          "load_state_dict",
          [](optim::Optimizer& self, nb::dict given) {
            nn::NamedTensors from;
            for (auto [name, value] : given) from.emplace_back(nb::cast<std::string>(name), to_tensor(value));
            nn::load_tensors(self.state(), from, {});
          },
          nb::arg("state"));
  m.def("_optimizer_kinds", [] {
    nb::dict kinds;
    for (const auto& [name, kind] : optim::optimizer_kinds().all()) {
      const auto schema = settings_schema(kind.settings, kind.defaults.get());
      kinds[name.c_str()] = nb::make_tuple(kind.doc, from_json_text(schema.dump()));
    }
    return kinds;
  });
  m.def("_make_optimizer", [](const std::string& kind, nb::handle parameters, const std::string& options) {
    const ConfigNode node = ConfigNode::parse(options, kind);
    return optim::optimizer_kinds().choose_named(kind, node, node).make()(groups_of(parameters));
  });
  m.def(
      "clip_norm",
      [](nb::handle parameters, double most) { return optim::clip_gradient_norm(to_tensors(parameters), most); },
      nb::arg("parameters"), nb::arg("most"),
      "Scales all gradients together so that their norm is at most this; returns the norm before.");
}

}  // namespace starling::python
