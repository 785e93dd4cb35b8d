#pragma once

#include <string_view>

#include "bind.h"
#include "convert.h"

// Short forms for functions of tensors.
namespace starling::python {

template <Tensor (*F)(const Tensor&)>
void def_unary(nb::module_& m, const char* name, const char* doc) {
  m.def(
      name, [](const Arg& x) { return F(x.tensor); }, nb::arg("x"), doc);
}

// Two operands, of which one may be a number that takes the other's dtype.
template <Tensor (*F)(const Tensor&, const Tensor&)>
void def_binary(nb::module_& m, const char* name, const char* doc) {
  m.def(
      name,
      [](nb::handle a, nb::handle b) {
        if (nb::isinstance<Tensor>(a)) {
          const auto& first = nb::cast<const Tensor&>(a);
          return F(first, to_tensor_beside(b, first));
        }
        const Tensor second = to_tensor(b);
        return F(to_tensor_beside(a, second), second);
      },
      nb::arg("a"), nb::arg("b"), doc);
}

// One operand and the fields of an attribute struct as keywords.
template <class Attributes, Tensor (*F)(const Tensor&, const Attributes&)>
void def_with(nb::module_& m, const char* name, const char* doc) {
  m.def(
      name, [name](const Arg& x, nb::kwargs keywords) { return F(x.tensor, attrs_from<Attributes>(keywords, name)); },
      nb::arg("x"), nb::arg("attributes"), doc);
}

// Two or three operands, the last optional, and the fields of an attribute struct as keywords.
template <class Attributes, Tensor (*F)(const Tensor&, const Tensor&, const Tensor&, const Attributes&)>
void def_weighted(nb::module_& m, const char* name, const char* doc) {
  m.def(
      name,
      [name](const Arg& x, const std::optional<Arg>& weight, const std::optional<Arg>& bias, nb::kwargs keywords) {
        return F(x.tensor, weight ? weight->tensor : Tensor(), bias ? bias->tensor : Tensor(),
                 attrs_from<Attributes>(keywords, name));
      },
      nb::arg("x"), nb::arg("weight") = nb::none(), nb::arg("bias") = nb::none(), nb::arg("attributes"), doc);
}

// A keyword under PyTorch's name for it.
template <class Argument>
Argument in_torchs_words(Argument argument) {
  if (std::string_view(argument.name_) == "axis") argument.name_ = "dim";
  return argument;
}

// A function of an axis, which may be called axis= or dim=.
template <class F, class... Arguments>
void def_axis(nb::module_& m, const char* name, F f, const char* doc, const Arguments&... arguments) {
  m.def(name, f, arguments..., doc);
  m.def(name, f, in_torchs_words(arguments)...);
}

inline Tensor given(const std::optional<Arg>& argument) { return argument ? argument->tensor : Tensor(); }

}  // namespace starling::python
