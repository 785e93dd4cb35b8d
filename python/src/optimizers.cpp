#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <set>
#include <string>

#include "bind.h"
#include "convert.h"
#include "described.h"
#include "interruptible.h"
#include "places.h"
#include "starling/optim/clip.h"
#include "starling/optim/optimizer_kinds.h"
#include "starling/optim/schedule_kinds.h"
#include "states.h"

namespace starling::python {
namespace {

// Names, by which the state of optimizers goes, for parameters that have none: by their place in the optimizer, so that
// they are the same in another process, whatever else it has made. A name that another parameter bears is passed over.
void name_all(std::vector<optim::ParameterGroup>& groups) {
  std::set<std::string> taken;
  for (const auto& group : groups) {
    for (const Tensor& parameter : group.parameters) taken.insert(parameter.name());
  }
  std::int64_t number = 0;
  for (auto& group : groups) {
    for (Tensor& parameter : group.parameters) {
      if (!parameter.name().empty()) continue;
      while (!taken.insert("parameter_" + std::to_string(++number)).second) continue;
      parameter.set_name("parameter_" + std::to_string(number));
    }
  }
}

std::vector<optim::ParameterGroup> groups_of(nb::handle parameters) {
  std::vector<optim::ParameterGroup> groups;
  std::vector<Tensor> plain;
  for (nb::handle item : parameters) {
    if (!nb::isinstance<nb::dict>(item)) {
      plain.push_back(expect_instance<Tensor>(item, "[optim] expected parameters, or dicts that have some"));
      continue;
    }
    optim::ParameterGroup group;
    for (auto [key, value] : nb::borrow<nb::dict>(item)) {
      const auto name = expect_text(key, "[optim] expected names as the keys of a group");
      if (name == "params")
        for (const Tensor& each : to_tensors(value)) group.parameters.push_back(each);
      else if (name == "lr_scale")
        group.lr_scale = scalar_value(value);
      else if (name == "weight_decay")
        group.weight_decay = scalar_value(value);
      else
        fail("[optim] expected params, lr_scale and weight_decay in a group, got '{}'{}", name,
             name == "lr" ? ": its rate is the optimizer's lr times lr_scale" : "");
    }
    groups.push_back(std::move(group));
  }
  if (!plain.empty()) groups.push_back({.parameters = std::move(plain)});
  name_all(groups);
  return groups;
}

}  // namespace

void bind_optimizers(nb::module_& m) {
  nb::class_<optim::Optimizer>(m, "OptimizerBase", "An optimizer of the library.")
      .def(
          "step", [](optim::Optimizer& self) { without_gil([&] { self.step(); }); },
          "Updates every parameter that has a gradient, and empties the gradients.")
      .def_prop_rw("lr", &optim::Optimizer::lr, &optim::Optimizer::set_lr, "The learning rate.")
      .def("parameters", &optim::Optimizer::parameters, "The parameters, of all groups.")
      .def(
          "groups",
          [](const optim::Optimizer& self) {
            nb::list groups;
            for (const auto& group : self.groups()) {
              nb::dict one;
              one["params"] = nb::cast(group.parameters);
              one["lr"] = self.lr() * group.lr_scale;
              one["lr_scale"] = group.lr_scale;
              one["weight_decay"] = group.weight_decay ? nb::cast(*group.weight_decay) : nb::none();
              groups.append(one);
            }
            return groups;
          },
          "Groups of parameters with params, lr, lr_scale and weight_decay.")
      .def(
          "state_dict",
          [](const optim::Optimizer& self) {
            nb::dict state;
            for (const auto& [name, tensor] : self.state()) state[name.c_str()] = tensor;
            return state;
          },
          "What it keeps between steps, by name: the tensors themselves.")
      .def(
          "load_state_dict",
          [](optim::Optimizer& self, nb::dict given) {
            nn::NamedTensors from;
            for (auto [name, value] : given)
              from.emplace_back(expect_text(name, "[load_state_dict] expected names as keys"), to_tensor(value));
            load_named(self.state(), from, {});
          },
          nb::arg("state"), "Copies such a state into its own.");
  m.def("_optimizer_kinds", [] { return described(optim::optimizer_kinds()); });
  nb::class_<optim::Schedule>(m, "ScheduleBase", "A schedule of the library.")
      .def(
          "factor",
          [](const optim::Schedule& self, std::int64_t step, std::int64_t steps, std::int64_t steps_per_epoch) {
            return self.factor({.step = step, .steps = steps, .steps_per_epoch = steps_per_epoch});
          },
          nb::arg("step"), nb::arg("steps"), nb::arg("steps_per_epoch"),
          "The factor on the rate for the step after so many.")
      .def("observe", &optim::Schedule::observe, nb::arg("metric"), "An evaluation's metric.")
      .def("prefer", &optim::Schedule::prefer, nb::arg("higher"), "Whether higher metrics are better.")
      .def(
          "state", [](const optim::Schedule& self) { return self.state().dump(); }, "Where it is, as JSON.")
      .def(
          "restore", [](optim::Schedule& self, const std::string& text) { self.restore(nlohmann::json::parse(text)); },
          nb::arg("text"), "Goes on from such a state.");
  m.def("_schedule_kinds", [] { return described(optim::schedule_kinds()); });
  m.def("_make_schedule", [](const std::string& kind, const std::string& options) {
    const ConfigNode node = ConfigNode::parse(options, kind);
    return without_places(kind, [&] { return optim::schedule_kinds().choose_named(kind, node, node).make(); });
  });
  m.def("_make_optimizer", [](const std::string& kind, nb::handle parameters, const std::string& options) {
    const ConfigNode node = ConfigNode::parse(options, kind);
    const auto make =
        without_places(kind, [&] { return optim::optimizer_kinds().choose_named(kind, node, node).make(); });
    return make(groups_of(parameters));
  });
  m.def(
      "clip_norm",
      [](nb::handle parameters, double most) {
        const std::vector<Tensor> all = to_tensors(parameters);
        return without_gil([&] { return optim::clip_gradient_norm(all, most); });
      },
      nb::arg("parameters"), nb::arg("most"),
      "Scales all gradients together so that their norm is at most this; returns the norm before.");
}

}  // namespace starling::python
