#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <map>

#include "bind.h"
#include "convert.h"
#include "starling/nn/module.h"

namespace starling::python {
namespace {

// A module whose forward pass is written in Python.
class PyModule : public nn::Module {
 public:
  // One that was there takes the place of the other: optimizers and compiled functions are made afterwards.
  Tensor own_parameter(const std::string& name, Tensor value) {
    const auto found = own_.find(name);
    if (found == own_.end()) return *(own_[name] = &add_parameter(name, value));
    value.set_requires_grad();
    *found->second = value;
    set_name(this->name());
    return value;
  }
  // By the names that they were given here, whatever name a shared one bears.
  nb::dict own_parameters() const {
    nb::dict all;
    for (const auto& [name, tensor] : own_) all[name.c_str()] = *tensor;
    return all;
  }
  Tensor own_buffer(const std::string& name, const Tensor& value) { return add_buffer(name, value); }
  void own_module(const std::string& name, std::shared_ptr<nn::Module> module) {
    for (const auto& [path, part] : module->named_modules())
      check(part != this, "[module] expected another module as '{}', got one that holds this one", name);
    const auto& own = children();
    if (std::any_of(own.begin(), own.end(), [&](const auto& child) { return child.first == name; }))
      return replace_module(name, std::move(module));
    add_module(name, std::move(module));
  }

  // As a call, with the result of forward() as it is.
  nb::object call_from_python(nb::args xs) {
    const std::vector<Tensor> in = to_tensors(xs);
    nb::object result;
    result_ = &result;
    (*this)(std::span<const Tensor>(in));
    return result;
  }

 protected:
  Tensor forward(const Tensor& x) override {
    TensorList out = forward_list({&x, 1});
    check(out.size() == 1, "[module] expected one result, got {}", out.size());
    return out[0];
  }

  TensorList forward_list(std::span<const Tensor> xs) override {
    const nb::gil_scoped_acquire gil;
    nb::object* const wanted = std::exchange(result_, nullptr);
    const nb::object self = nb::find(this);
    check(self.is_valid(), "[module] expected the Python object of this module to be alive");
    nb::list arguments;
    for (const auto& x : xs) arguments.append(x.defined() ? nb::cast(x) : nb::none());
    const nb::object result = self.attr("forward")(*nb::tuple(arguments));
    if (wanted) {
      *wanted = result;
      return {};
    }
    if (nb::isinstance<Tensor>(result)) return {nb::cast<Tensor>(result)};
    TensorList out;
    for (nb::handle item : result) out.push_back(to_tensor(item));
    return out;
  }

 private:
  std::map<std::string, Tensor*> own_;  // parameters of this module itself
  nb::object* result_ = nullptr;        // where a caller in Python wants what forward() returned, whatever it is
};

// Python objects that a module holds through C++, for the collector of cycles: a child may hold its parent, say in a
// hook. Visited are references that are the module's alone.
int traverse_module(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (PyObject** dict = _PyObject_GetDictPtr(self)) Py_VISIT(*dict);
  if (!nb::inst_ready(self)) return 0;
  for (const auto& [name, child] : nb::inst_ptr<PyModule>(self)->children()) {
    const auto* held = std::get_deleter<nb::detail::py_deleter>(child);
    if (held && child.use_count() == 1) Py_VISIT(held->o);
  }
  return 0;
}

// Modules hold their parts as a tree: every cycle goes through attributes somewhere.
int clear_module(PyObject* self) {
  if (PyObject** dict = _PyObject_GetDictPtr(self)) Py_CLEAR(*dict);
  return 0;
}

PyType_Slot module_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(&traverse_module)},
                              {Py_tp_clear, reinterpret_cast<void*>(&clear_module)},
                              {0, nullptr}};

}  // namespace

void bind_python_module(nb::module_& m) {
  nb::class_<PyModule, nn::Module>(m, "PyModule", nb::type_slots(module_slots), "A module whose call is Python's.")
      .def(nb::init<>())
      .def("_call", &PyModule::call_from_python, nb::arg("inputs"))
      .def("_own_parameter", &PyModule::own_parameter)
      .def("_own_parameters", &PyModule::own_parameters)
      .def("_own_buffer", &PyModule::own_buffer)
      .def("_own_module", &PyModule::own_module);
}

}  // namespace starling::python
