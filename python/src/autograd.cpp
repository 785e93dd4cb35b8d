#include "starling/autograd/autograd.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "convert.h"
#include "held.h"
#include "history_lines.h"
#include "interruptible.h"
#include "starling/autograd/custom_function.h"
#include "starling/autograd/recompute.h"
#include "starling/autograd/transforms.h"

namespace starling::python {
namespace {

// with no_grad(): …
struct GradScope {
  explicit GradScope(bool enabled) : on(enabled) {}
  GradScope(const GradScope&) = delete;

  bool on;
  std::vector<std::unique_ptr<GradMode>> entered{};
};

TensorList list_of(nb::handle result) {
  if (nb::isinstance<Tensor>(result)) return {nb::cast<Tensor>(result)};
  if (result.is_none()) return {};
  TensorList list;
  if (nb::isinstance<nb::list>(result) || nb::isinstance<nb::tuple>(result)) {
    for (nb::handle item : result) list.push_back(item.is_none() ? Tensor() : to_tensor(item));
    return list;
  }
  return {to_tensor(result)};
}

nb::list arguments(std::span<const Tensor> tensors) {
  nb::list list;
  for (const auto& tensor : tensors) list.append(tensor.defined() ? nb::cast(tensor) : nb::none());
  return list;
}

TensorList called(const Held& f, std::span<const Tensor> in) {
  const nb::gil_scoped_acquire gil;
  return list_of((*f)(*nb::tuple(arguments(in))));
}

nb::tuple tuple_of(const TensorList& tensors) { return nb::tuple(arguments({tensors.data(), tensors.size()})); }

// Context that the two passes of a function share, for as long as a pass runs.
struct PyContext {
  FunctionContext* context;

  FunctionContext& get() const {
    check(context != nullptr, "[function] expected the context to be used inside forward and backward only");
    return *context;
  }
};

// `attributes` is what the passes of one call have set on their context: each finds what the one before has left.
TensorList called_with(const Held& f, const Held& attributes, FunctionContext& context, std::span<const Tensor> in) {
  const nb::gil_scoped_acquire gil;
  nb::list all;
  const nb::object handle = nb::cast(PyContext{&context});
  handle.attr("__dict__").attr("update")(*attributes);
  all.append(handle);
  for (nb::handle each : arguments(in)) all.append(each);
  struct Over {
    PyContext& used;
    ~Over() { used.context = nullptr; }
  } const over{nb::cast<PyContext&>(handle)};
  const nb::object results = (*f)(*nb::tuple(all));
  attributes->attr("update")(handle.attr("__dict__"));
  return list_of(results);
}

void bind_scopes(nb::module_& m) {
  nb::class_<GradScope>(m, "GradScope", "with GradScope(on): history is recorded, or not.")
      .def(
          "__init__", [](GradScope* self, bool on) { new (self) GradScope(on); }, nb::arg("on"))
      .def(
          "__enter__",
          [](GradScope& self) -> GradScope& {
            self.entered.push_back(std::make_unique<GradMode>(self.on));
            return self;
          },
          nb::rv_policy::reference)
      .def(
          "__exit__",
          [](GradScope& self, nb::args) {
            check(!self.entered.empty(), "[grad] expected a scope that was entered");
            self.entered.pop_back();
          },
          nb::arg("reason"));
  m.def("is_grad_enabled", &grad_enabled, "Whether this thread records history.");
}

}  // namespace

void bind_autograd(nb::module_& m) {
  bind_scopes(m);
  m.def(
      "gradients",
      [](nb::handle outputs, nb::handle inputs, nb::handle seeds, bool create_graph, bool allow_unused) {
        const std::vector<Tensor> given_seeds = seeds.is_none() ? std::vector<Tensor>{} : to_tensors(seeds);
        const std::vector<Tensor> of = to_tensors(outputs), by = to_tensors(inputs);
        expect_floats(of, "gradients");
        expect_floats(by, "gradients");
        const auto pass = [&] { return gradients(of, by, given_seeds, {create_graph, allow_unused}); };
        return tuple_of(naming_lines(of, [&] { return without_gil(pass); }));
      },
      nb::arg("outputs"), nb::arg("inputs"), nb::arg("seeds") = nb::none(), nb::arg("create_graph") = false,
      nb::arg("allow_unused") = false, "Gradients of the outputs' sum by the inputs; .grad is not touched.");
  m.def("_value_and_grad", [](nb::object f, nb::handle inputs) {
    Tensor result;
    const auto of = value_and_grad_all([&result, f = held(std::move(f))](std::span<const Tensor> in) -> Tensor {
      TensorList out = called(f, in);
      check(out.size() == 1, "[grad] expected a function of one result, got {}", out.size());
      check(!out[0].defined() || out[0].numel() == 1,
            "[grad] expected a function whose result has one element, got {}: sum() it, or use vjp()",
            out[0].defined() ? to_string(out[0].type()) : "");
      return result = out[0];
    });
    const std::vector<Tensor> by = to_tensors(inputs);
    expect_floats(by, "grad");
    const auto [value, grads] = naming_lines({&result, 1}, [&] { return without_gil([&] { return of(by); }); });
    expect_floats({value}, "grad");
    return nb::make_tuple(value, tuple_of(grads));
  });
  m.def("_vjp", [](nb::object f, nb::handle inputs) {
    const std::vector<Tensor> by = to_tensors(inputs);
    expect_floats(by, "vjp");
    const auto results = std::make_shared<TensorList>();  // with their history
    const auto function = [f = held(std::move(f)), results](std::span<const Tensor> in) {
      return *results = called(f, in);
    };
    const Vjp made = without_gil([&] { return vjp(function, by); });
    const auto pullback = nb::cpp_function([pull = made.pullback, of = *results](nb::args given) {
      const std::vector<Tensor> cotangents = to_tensors(given);
      return tuple_of(naming_lines(of, [&] { return without_gil([&] { return pull(cotangents); }); }));
    });
    return nb::make_tuple(to_python(made.outputs), pullback);
  });
  m.def("_jvp", [](nb::object f, nb::handle inputs, nb::handle tangents) {
    const std::vector<Tensor> by = to_tensors(inputs);
    expect_floats(by, "jvp");
    const std::vector<Tensor> along = to_tensors(tangents);
    const auto function = [f = held(std::move(f))](std::span<const Tensor> in) { return called(f, in); };
    const Jvp made = without_gil([&] { return jvp(function, by, along); });
    return nb::make_tuple(to_python(made.outputs), to_python(made.tangents));
  });
  m.def("_recompute", [](nb::object f, nb::handle inputs) {
    const std::vector<Tensor> by = to_tensors(inputs);
    const auto function = [f = held(std::move(f))](std::span<const Tensor> in) { return called(f, in); };
    return to_python(without_gil([&] { return recompute(function, by); }));
  });
  nb::class_<PyContext>(m, "FunctionContext", nb::dynamic_attr(),
                        "What a function keeps from its forward for its backward pass.")
      .def(
          "save", [](PyContext& self, nb::args tensors) { self.get().save(to_tensors(tensors)); }, nb::arg("tensors"),
          "Keeps tensors for the backward pass.")
      .def(
          "save_for_backward", [](PyContext& self, nb::args tensors) { self.get().save(to_tensors(tensors)); },
          nb::arg("tensors"), "save(), as PyTorch calls it.")
      .def_prop_ro(
          "saved_tensors", [](const PyContext& self) { return nb::tuple(arguments(self.get().saved())); },
          "saved, as PyTorch calls it.")
      .def_prop_ro(
          "saved", [](const PyContext& self) { return nb::tuple(arguments(self.get().saved())); },
          "The tensors that forward has kept.")
      .def(
          "needs", [](const PyContext& self, int input) { return self.get().needs(input); }, nb::arg("input"),
          "Whether the gradient of this input is asked for.");
  m.def("_custom", [](const std::string& name, nb::object forward, nb::object backward, nb::handle inputs) {
    const auto pass = [attributes = held(nb::dict())](nb::object f) {
      return [f = held(std::move(f)), attributes](FunctionContext& context, std::span<const Tensor> in) {
        return called_with(f, attributes, context, in);
      };
    };
    const std::vector<Tensor> by = to_tensors(inputs);
    const CustomFunction own{.name = name, .forward = pass(forward), .backward = pass(backward)};
    return to_python(without_gil([&] { return custom_function(by, own); }));
  });
}

}  // namespace starling::python
