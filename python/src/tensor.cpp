#include <fmt/format.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <sstream>

#include "bind.h"
#include "convert.h"
#include "dense.h"
#include "held.h"
#include "history_lines.h"
#include "interruptible.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/state.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/argument_error.h"

namespace starling::python {
namespace {

std::string text_of(const Tensor& tensor) {
  std::ostringstream text;
  text << tensor;
  return text.str();
}

nb::object element(const Tensor& host, std::int64_t at) {
  switch (host.dtype()) {
    case DType::boolean: return nb::cast(host.data<bool>()[at]);
    case DType::i64: return nb::cast(host.data<std::int64_t>()[at]);
    case DType::u64: return nb::cast(host.data<std::uint64_t>()[at]);
    default: break;
  }
  const Tensor one = view_of(host, {}, {}, at);
  const double value = one.item();
  return is_float(host.dtype()) ? nb::cast(value) : nb::cast(static_cast<std::int64_t>(value));
}

Tensor on_host(const Tensor& tensor) { return to(dense(tensor), kCpu); }

nb::object item(const Tensor& tensor) {
  check(tensor.numel() == 1, "[item] expected a tensor of one element, got {}", to_string(tensor.type()));
  if (tensor.traced()) tensor.item();  // says where, and what to do instead
  return element(on_host(tensor), 0);
}

nb::object nested(const Tensor& host, int axis, std::int64_t& at) {
  if (axis == host.rank()) return element(host, at++);
  nb::list list;
  for (std::int64_t i = 0; i < host.shape()[axis]; ++i) list.append(nested(host, axis + 1, at));
  return list;
}

Tensor moved(const Tensor& self, nb::handle target, nb::handle second) {
  Tensor result = self;
  for (nb::handle each : {target, second}) {
    if (each.is_none()) continue;
    std::optional<Device> device;
    if (!dtype_from(each)) device = device_from(each);
    if (const auto dtype = dtype_from(each)) {
      if (result.dtype() != *dtype) result = cast(result, *dtype);
    } else if (device) {
      if (result.device() != *device) result = to(result, *device);
    } else {
      throw nb::type_error("[to] expected a dtype or a device, such as \"f16\" or \"cuda:0\"");
    }
  }
  return result;
}

void bind_values(nb::class_<Tensor>& tensor) {
  tensor.def("item", &item, "The only element, as a Python number.")
      .def(
          "tolist",
          [](const Tensor& self) {
            std::int64_t at = 0;
            return nested(on_host(self), 0, at);
          },
          "The values as nested lists.")
      .def("__bool__", [](const Tensor& self) { return nb::cast<double>(item(self)) != 0; })
      .def("__int__", [](const Tensor& self) { return nb::steal(PyNumber_Long(item(self).ptr())); })
      .def("__float__", [](const Tensor& self) { return nb::cast<double>(item(self)); })
      .def("__index__",
           [](const Tensor& self) {
             check(is_integer(self.dtype()), "[index] expected an integer tensor, got {}", to_string(self.type()));
             return item(self);
           })
      .def("__repr__", &text_of)
      .def("__format__",
           [](const Tensor& self, const std::string& format) {
             if (format.empty()) return text_of(self);
             return nb::cast<std::string>(item(self).attr("__format__")(format));
           })
      .def("__len__",
           [](const Tensor& self) {
             if (self.rank() == 0) throw nb::type_error("[len] expected a tensor with dimensions, got a scalar");
             return self.shape()[0];
           })
      .def("__hash__", [](const Tensor& self) { return reinterpret_cast<std::intptr_t>(self.impl()) >> 4; });
}

void set_gradient(const Tensor& self, std::optional<Tensor> grad) {
  if (grad && (grad->shape() != self.shape() || grad->dtype() != self.dtype()))
    throw ArgumentError(fmt::format("[grad] expected a gradient of its tensor's type, {}, got {}",
                                    to_string(self.type()), to_string(grad->type())));
  self.set_grad(grad.value_or(Tensor()));
}

void bind_gradients(nb::class_<Tensor>& tensor) {
  tensor.def_prop_rw(
      "requires_grad", &Tensor::requires_grad, [](Tensor& self, bool on) { self.set_requires_grad(on); },
      "Whether gradients by this tensor are wanted.");
  tensor.def_prop_ro(
      "is_leaf", [](const Tensor& self) { return !(self.impl()->extra && self.impl()->extra->node); },
      "Whether no op that is recorded for gradients has made it: backward() leaves gradients at leaves.");
  tensor
      .def(
          "requires_grad_", [](Tensor& self, bool on) { return self.set_requires_grad(on); }, nb::arg("on") = true,
          "Asks for gradients by this tensor, in place; returns it.")
      .def_prop_rw(
          "grad",
          [](const Tensor& self) -> nb::object {
            const Tensor grad = self.grad();
            return grad.defined() ? nb::cast(grad) : nb::none();
          },
          &set_gradient, nb::arg("grad").none(), "The gradient that backward() has added up, or None.")
      .def(
          "backward",
          [](const Tensor& self, std::optional<Tensor> gradient) {
            expect_floats({self}, "backward");
            const auto pass = [&] { gradient ? self.backward(*gradient) : self.backward(); };
            naming_lines({&self, 1}, [&] { without_gil(pass); });
          },
          nb::arg("gradient") = nb::none(), "Adds gradients to the .grad of every leaf that this tensor depends on.")
      .def("detach", &Tensor::detach, "The same memory without history.")
      .def(
          "register_hook",
          [](const Tensor& self, nb::object given) {
            return self.register_hook([hook = held(std::move(given))](const Tensor& gradient) {
              const nb::gil_scoped_acquire gil;
              const nb::object result = (*hook)(gradient);
              return result.is_none() ? Tensor() : to_tensor(result);
            });
          },
          nb::arg("hook"), "Calls hook(gradient) in every backward pass; what it returns replaces the gradient.");
}

}  // namespace

void bind_tensor(nb::module_& m) {
  // A function whose first argument is the object that it is looked up on, without a call of Python in between.
  m.def("_as_method", [](nb::handle function) { return nb::steal(PyInstanceMethod_New(function.ptr())); });
  nb::class_<HookHandle>(m, "HookHandle", "A hook of a tensor.")
      .def("remove", &HookHandle::remove, "Takes the hook away; once is enough.")
      .def("__repr__", [](const HookHandle&) { return "<hook of a tensor>"; });
  nb::class_<Tensor> tensor(m, "Tensor", nb::is_weak_referenceable(), "An n-dimensional array with gradients.");
  forget_objects_that_end(tensor);
  tensor
      .def_prop_ro(
          "shape", [](const Tensor& self) { return self.shape(); }, "Sizes of the axes: a tuple.")
      .def_prop_ro("dtype", &Tensor::dtype, "Type of the elements.")
      .def_prop_ro("device", &Tensor::device, "Where the memory is.")
      .def_prop_ro("ndim", &Tensor::rank, "Number of axes.")
      .def_prop_ro("size", &Tensor::numel, "Number of elements.")
      .def("numel", &Tensor::numel, "Number of elements.")
      .def_prop_ro(
          "strides", [](const Tensor& self) { return self.strides(); }, "In elements.")
      .def_prop_ro("is_contiguous", &Tensor::contiguous, "Whether the memory is in row-major order.")
      .def_prop_ro("traced", &Tensor::traced, "Whether this is a value of a function being compiled.")
      .def_prop_rw(
          "name", [](const Tensor& self) { return self.name(); },
          [](Tensor& self, std::string name) { self.set_name(std::move(name)); },
          "By which states and graphs know it; empty: none.")
      .def("to", &moved, nb::arg("target"), nb::arg("other") = nb::none(),
           "In another dtype, on another device, or both.")
      .def(
          "astype", [](const Tensor& self, DType dtype) { return cast(self, dtype); }, nb::arg("dtype"),
          "The same values in another dtype.")
      .def(
          "clone", [](const Tensor& self) { return mul(self, 1.0); }, "A copy with history.")
      .def(
          "copy", [](const Tensor& self) { return dense_copy(self); }, "A copy without history.")
      .def("__copy__", [](const Tensor& self) { return self; })
      .def(
          "__deepcopy__",
          [](const Tensor& self, nb::handle) {
            Tensor copy = dense_copy(self);
            if (self.requires_grad()) copy.set_requires_grad();
            return copy;
          },
          nb::arg("memo"))
      .def(
          "assign",
          [](const Tensor& self, Arg value) {
            const NoGrad off;
            assign(self, value.tensor);
          },
          nb::arg("value"), "Overwrites the values in place; compiled functions see it.");
  bind_values(tensor);
  bind_gradients(tensor);
  bind_tensor_operators(tensor);
  bind_indexing(tensor);
  bind_arrays(m, tensor);
}

}  // namespace starling::python
