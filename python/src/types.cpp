#include "types.h"

#include <nanobind/stl/string.h>

#include <cstddef>
#include <iterator>
#include <new>
#include <string_view>

#include "bind.h"
#include "convert.h"
#include "starling/base/error.h"
#include "starling/base/parallel.h"
#include "starling/base/version.h"
#include "starling/ops/def/argument_error.h"
#include "starling/train/run/refusal.h"

namespace starling::python {
namespace {

nb::object& dtype_object(DType dtype) {
  static nb::object* const objects = new nb::object[kDTypeCount];  // never freed: types outlive the interpreter's end
  return objects[static_cast<int>(dtype)];
}

}  // namespace

// What Python has a class of its own for is of that class too: `except IndexError` works, and so does `except Error`.
// The library's errors differ by their words there.
constexpr std::pair<const char*, const char*> kKinds[] = {{"expected indices in [", "IndexError"},
                                                          {"got: No such file or directory", "FileNotFoundError"},
                                                          {"bytes of this machine, got a request for", "MemoryError"}};
PyObject* kinds_of_errors[std::size(kKinds)] = {};  // live as long as the process

// What to do in Python, where the library's words leave it open.
constexpr std::pair<std::string_view, const char*> kHints[] = {
    {"expected labels i64", ": convert them, labels.long()"},
    {"expected operands of one dtype, got", ": convert one of them, such as x.float()"},
    {"expected a value that depends on tensors requiring gradients, got one that does not",
     ": results of compiled functions have no history, call backward() inside or compile(grad(f))"}};

std::string hint_for(std::string_view text) {
  for (const auto& [words, hint] : kHints) {
    if (text.find(words) != std::string_view::npos) return hint;
  }
  return {};
}

PyObject* error_object = nullptr;  // live as long as the process
PyObject* argument_error_object = nullptr;

void bind_kinds_of_errors(nb::module_& m, const nb::object& error) {
  error_object = nb::object(error).release().ptr();
  argument_error_object = nb::object(m.attr("ArgumentError")).release().ptr();
  const nb::handle builtins = nb::module_::import_("builtins");
  for (std::size_t i = 0; i < std::size(kKinds); ++i) {
    const std::string name = "_" + std::string(kKinds[i].second);
    const nb::tuple bases = nb::make_tuple(error, builtins.attr(kKinds[i].second));
    const nb::object kind = nb::borrow(reinterpret_cast<PyObject*>(&PyType_Type))(name, bases, nb::dict());
    kind.attr("__module__") = m.attr("__name__");
    m.attr(name.c_str()) = kind;
    kinds_of_errors[i] = nb::object(kind).release().ptr();
  }
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const ArgumentError& problem) {
      const std::string hint = hint_for(problem.what());
      if (hint.empty()) throw;  // a class of its own, too
      PyErr_SetString(argument_error_object, (problem.what() + hint).c_str());
    } catch (const Error& problem) {
      const std::string_view text = problem.what();
      if (const std::string hint = hint_for(text); !hint.empty())
        return PyErr_SetString(error_object, (problem.what() + hint).c_str());
      for (std::size_t i = 0; i < std::size(kKinds); ++i) {
        if (text.find(kKinds[i].first) == std::string_view::npos) continue;
        return PyErr_SetString(kinds_of_errors[i], problem.what());
      }
      throw;
    }
  });
}

void bind_types(nb::module_& m) {
  nb::object error = nb::exception<Error>(m, "Error", PyExc_RuntimeError);
  error.attr("__doc__") = "What the library refuses, or what failed: \"[who] expected ..., got ...\".";
  // What an op does not take is a ValueError, too, as in NumPy.
  const nb::tuple bases = nb::make_tuple(error, nb::borrow(PyExc_ValueError));
  nb::object argument_error = nb::exception<ArgumentError>(m, "ArgumentError", bases);
  argument_error.attr("__doc__") = "Operands or attributes that an op does not take; a ValueError, too.";
  bind_kinds_of_errors(m, error);
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::bad_cast&) {
      PyErr_SetString(PyExc_TypeError,
                      "[starling] expected arguments of other types: help() of the function names them");
    }
  });
  nb::class_<PyDType>(m, "DType", "Type of the elements of a tensor.")
      .def_prop_ro(
          "name", [](const PyDType& self) { return std::string(name(self.value)); }, "As the library writes it.")
      .def_prop_ro(
          "itemsize", [](const PyDType& self) { return size_of(self.value); }, "Bytes of an element.")
      .def_prop_ro(
          "is_float", [](const PyDType& self) { return is_float(self.value); }, "Whether it is of floats.")
      .def_prop_ro(
          "is_integer", [](const PyDType& self) { return is_integer(self.value); }, "Whether it is of integers.")
      .def("__repr__", [](const PyDType& self) { return "starling." + std::string(name(self.value)); })
      .def(
          "__eq__",
          [](const PyDType& self, nb::handle other) {
            const auto dtype = dtype_from(other);
            return dtype && *dtype == self.value;
          },
          nb::arg("other").none())
      .def("__hash__", [](const PyDType& self) { return static_cast<int>(self.value); })
      .def("__reduce__", [](const PyDType& self) {
        return nb::make_tuple(nb::module_::import_("starling._methods").attr("_dtype"),
                              nb::make_tuple(std::string(name(self.value))));
      });
  nb::class_<PyDevice>(m, "Device", "Where a tensor lives: cpu, cuda:0.")
      .def(
          "__init__", [](PyDevice* self, Device device) { new (self) PyDevice{device}; }, nb::arg("device"))
      .def_prop_ro(
          "type", [](const PyDevice& self) { return std::string(name(self.value.kind)); }, "cpu or cuda.")
      .def_prop_ro(
          "index", [](const PyDevice& self) { return static_cast<int>(self.value.index); }, "Which of its kind.")
      .def("__repr__", [](const PyDevice& self) { return to_string(self.value); })
      .def(
          "__eq__",
          [](const PyDevice& self, nb::handle other) {
            const auto device = device_from(other);
            return device && *device == self.value;
          },
          nb::arg("other").none())
      .def("__hash__", [](const PyDevice& self) { return static_cast<int>(self.value.kind) * 256 + self.value.index; });
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    dtype_object(dtype) = nb::cast(PyDType{dtype});
    m.attr(dtype == DType::boolean ? "boolean" : std::string(name(dtype)).c_str()) = dtype_object(dtype);
  }
  m.def(
      "dtype", [](DType dtype) { return dtype; }, nb::arg("name"),
      "The dtype of this name; NumPy's names and types are understood.");
  m.def(
      "num_threads", [] { return num_threads(); }, "Threads that ops may use.");
  m.def(
      "set_num_threads",
      [](int threads) {
        check(threads >= 1, "[set_num_threads] expected at least one thread, got {}", threads);
        alignas(ThreadScope) static thread_local std::byte place[sizeof(ThreadScope)];
        new (place) ThreadScope(threads);  // never left
      },
      nb::arg("threads"), "How many threads ops that this thread of the program calls may use from now on.");
  m.attr("__version__") = kVersion;
}

}  // namespace starling::python

namespace nanobind::detail {

handle type_caster<starling::DType>::from_cpp(starling::DType dtype, rv_policy, cleanup_list*) noexcept {
  return starling::python::dtype_object(dtype).inc_ref();
}

handle type_caster<starling::Device>::from_cpp(starling::Device device, rv_policy, cleanup_list*) noexcept {
  return cast(starling::python::PyDevice{device}).release();
}

}  // namespace nanobind::detail
