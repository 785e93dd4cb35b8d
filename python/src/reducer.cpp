#include "bind.h"
#include "convert.h"
#include "interruptible.h"
#include "ranks.h"
#include "starling/base/error.h"
#include "starling/dist/strategy/gradient_reducer.h"

namespace starling::python {
namespace {

// Gradients of eager code, averaged over the ranks of the world that this process has joined.
struct PyReducer {
  std::shared_ptr<Comm> comm;  // outlives what uses it
  std::unique_ptr<GradientReducer> reducer;

  GradientReducer& get() const {
    check(reducer != nullptr, "[gradient_reducer] expected a reducer that was not given up");
    return *reducer;
  }
  void give_up() {
    const nb::gil_scoped_release release;  // it waits for exchanges in flight
    reducer.reset();
  }
  ~PyReducer() {
    if (reducer) give_up();
  }
};

void make_reducer(PyReducer* self, nb::handle parameters, std::size_t bucket_bytes, std::size_t first_bucket_bytes,
                  bool overlap) {
  std::shared_ptr<Comm> comm = world_comm();
  const std::vector<Tensor> tensors = to_tensors(parameters);
  const GradientReducerOptions options{
      .bucket_bytes = bucket_bytes, .first_bucket_bytes = first_bucket_bytes, .overlap = overlap};
  // Ranks compare their parameters.
  auto made = without_gil([&] { return std::make_unique<GradientReducer>(*comm, tensors, options); });
  new (self) PyReducer{std::move(comm), std::move(made)};
}

}  // namespace

void bind_reducer(nb::module_& m) {
  const GradientReducerOptions defaults;
  nb::class_<PyReducer>(m, "ReducerBase", "A gradient reducer of the library.")
      .def("__init__", &make_reducer, nb::arg("parameters"), nb::arg("bucket_bytes") = defaults.bucket_bytes,
           nb::arg("first_bucket_bytes") = defaults.first_bucket_bytes, nb::arg("overlap") = defaults.overlap)
      .def(
          "begin", [](PyReducer& self, double samples) { self.get().begin(samples); }, nb::arg("samples"),
          "Before the last backward pass of a step.")
      .def(
          "finish", [](PyReducer& self) { without_gil([&] { self.get().finish(); }); },
          "Waits, and sets all gradients to the mean.")
      .def("give_up", &PyReducer::give_up, "Breaks the group: the others would wait.")
      .def_prop_ro(
          "buckets", [](const PyReducer& self) { return self.get().buckets(); }, "Number of exchanges in a step.")
      .def_prop_ro(
          "left_early", [](const PyReducer& self) { return self.get().left_early(); },
          "Exchanges of the last step that began before finish().");
}

}  // namespace starling::python
