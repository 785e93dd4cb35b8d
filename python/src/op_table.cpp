#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "convert.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/registry.h"

// Every op of the registry as a callable: inputs by position or name, attributes by name. starling.op is made of these.
namespace starling::python {
namespace {

struct PyOp {
  const OpDef* def;

  int input_named(const std::string& name) const {
    for (std::size_t i = 0; i < def->inputs.size(); ++i) {
      std::string_view own = def->inputs[i];
      if (own.ends_with("?")) own.remove_suffix(1);
      if (own == name) return static_cast<int>(i);
    }
    return -1;
  }
};

std::vector<Tensor> variadic_inputs(nb::args arguments) {
  if (nb::len(arguments) == 1 && (nb::isinstance<nb::list>(arguments[0]) || nb::isinstance<nb::tuple>(arguments[0])))
    return to_tensors(arguments[0]);
  return to_tensors(arguments);
}

nb::object call(const PyOp& self, nb::args arguments, nb::kwargs keywords) {
  const OpDef& op = *self.def;
  std::vector<Tensor> in;
  Attrs attrs = Attrs::defaults(*op.attrs);
  nb::kwargs rest = nb::borrow<nb::kwargs>(nb::dict());
  if (op.variadic()) {
    in = variadic_inputs(arguments);
    set_attrs(attrs, keywords, op.name);
    return to_python(apply(op, in, attrs));
  }
  const std::size_t most = op.inputs.size();
  if (nb::len(arguments) > most)
    throw nb::type_error(fmt::format("[{}] expected at most {} tensors by position, got {}; options go by name",
                                     op.name, most, nb::len(arguments))
                             .c_str());
  for (nb::handle argument : arguments) in.push_back(argument.is_none() ? Tensor() : to_tensor(argument));
  for (auto [key, value] : keywords) {
    const int place = self.input_named(nb::cast<std::string>(key));
    if (place < 0) {
      rest[key] = value;
      continue;
    }
    if (in.size() <= static_cast<std::size_t>(place)) in.resize(static_cast<std::size_t>(place) + 1);
    in[static_cast<std::size_t>(place)] = value.is_none() ? Tensor() : to_tensor(value);
  }
  while (!in.empty() && !in.back().defined()) in.pop_back();
  set_attrs(attrs, rest, op.name);
  return to_python(apply(op, in, attrs));
}

nb::dict attributes(const PyOp& self) {
  nb::dict all;
  const Attrs defaults = Attrs::defaults(*self.def->attrs);
  for (const auto& field : self.def->attrs->fields) all[std::string(field.name).c_str()] = attr_value(defaults, field);
  return all;
}

}  // namespace

void bind_op_table(nb::module_& m) {
  nb::class_<PyOp>(m, "Op", nb::dynamic_attr(),
                   "An op of the registry, called with tensors and, by name, its attributes.")
      .def("__call__", &call, nb::arg("inputs"), nb::arg("attributes"))
      .def_prop_ro(
          "name", [](const PyOp& self) { return self.def->name; }, "As in the registry.")
      .def_prop_ro(
          "doc", [](const PyOp& self) { return self.def->doc; }, "What it computes, in a sentence.")
      .def_prop_ro(
          "inputs", [](const PyOp& self) { return self.def->inputs; },
          "Names of the inputs: `x?` may be left out, `xs...` stands for any number.")
      .def_prop_ro(
          "outputs", [](const PyOp& self) { return self.def->outputs; }, "Names of the results.")
      .def_prop_ro("attributes", &attributes, "Attributes with their defaults.")
      .def_prop_ro(
          "differentiable", [](const PyOp& self) { return self.def->gradient != nullptr; },
          "Whether it has a gradient.")
      .def("__repr__", [](const PyOp& self) {
        return fmt::format("<op {}({})>", self.def->name, fmt::join(self.def->inputs, ", "));
      });
  m.def(
      "all_ops",
      [] {
        nb::dict table;
        for (const OpDef* op : op_registry().sorted()) table[op->name.c_str()] = nb::cast(PyOp{op});
        return table;
      },
      "Every op of the registry by its name.");
}

}  // namespace starling::python
