#include "starling/runtime/compile.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <mutex>

#include "bind.h"
#include "convert.h"
#include "error_lines.h"
#include "held.h"
#include "interruptible.h"
#include "ranks.h"
#include "starling/base/error.h"
#include "starling/graph/printer.h"
#include "starling/ops/def/apply.h"
#include "starling/tensor/interpreter.h"
#include "traced_lines.h"

namespace starling::python {
namespace {

// A traced program of a Python function over flat lists of tensors; starling/_compile.py gives it structure.
class PyProgram {
 public:
  PyProgram(nb::object f, CompileOptions options, PyStrategy ranks)
      : ranks_(std::move(ranks)),
        function_([this, f = held(std::move(f))](std::span<const Tensor> in) { return traced(f, in); },
                  std::move(options)) {}
  PyProgram(const PyProgram&) = delete;

  nb::list call(nb::handle arguments) {
    std::vector<Tensor> in;
    for (nb::handle argument : arguments) {
      in.push_back(to_tensor(argument, std::nullopt, true));
      check(!(in.back().requires_grad() && grad_enabled()),
            "[compile] expected arguments without gradient, since a program's results have none: compile the function "
            "that takes the gradient, compile(grad(f)), or pass x.detach()");
    }
    // Calls of several threads follow one another, from the first, which traces. Whoever waits does so without the GIL.
    const auto run = [&] {
      const std::scoped_lock turn(mutex_);
      if (ranks_.comm && !looked_at_) expect_ready(ranks_, in);
      looked_at_ = true;
      try {
        return ranks_.comm ? function_.call(in, {rows_of_all(ranks_, own_rows(in))}) : function_.call(in);
      } catch (...) {
        rethrow_with_lines(std::current_exception(), [&](std::string_view op) { return lines_.of(op); });
      }
    };
    const TensorList out = without_gil(run, ranks_.comm ? ranks_.comm.get() : comm_of_thread());
    nb::list results;
    for (const auto& tensor : out) results.append(tensor);
    return results;
  }

  // Something read of the programs while no call changes them; whoever waits does so without the GIL.
  template <class Read>
  auto read(Read&& read) {
    const nb::gil_scoped_release release;
    const std::scoped_lock turn(mutex_);
    return read(function_);
  }

 private:
  TensorList traced(const Held& f, std::span<const Tensor> in) {
    const nb::gil_scoped_acquire gil;
    const NotesLines noting(lines_);
    nb::list arguments;
    for (const auto& tensor : in) arguments.append(tensor);
    TensorList out;
    for (nb::handle item : (*f)(arguments)) out.push_back(to_tensor(item));
    return out;
  }

  static std::int64_t own_rows(std::span<const Tensor> in) {
    for (const auto& tensor : in) {
      if (tensor.rank() > 0) return tensor.shape()[0];
    }
    return 0;
  }

  PyStrategy ranks_;            // of a global program; without a communicator: one rank
  bool looked_at_ = false;      // the arguments of the first call, by all ranks
  std::recursive_mutex mutex_;  // a function that calls itself is refused by the library, not by a deadlock
  TracedLines lines_;           // for errors of what was traced
  CompiledFunction function_;
};

}  // namespace

void bind_compile(nb::module_& m) {
  m.def(
      "_tracing", [] { return current_interpreter().tracer() != nullptr; },
      "Whether ops of this thread are added to a program that is being made.");
  m.def(
      "_eagerly",
      [](nb::handle f) {
        const InterpreterScope eager(eager_interpreter());
        return nb::object(f());
      },
      nb::arg("f"), "f(), whose ops run at once, also while a program is being made.");
  nb::class_<PyProgram>(m, "Program", "A traced function over flat lists of tensors.")
      .def(
          "__init__",
          [](PyProgram* self, nb::object f, std::set<std::string> disable, int threads, std::size_t memory_budget,
             bool reference_only, nb::handle strategy) {
            PyStrategy ranks = strategy_from(strategy);
            check(ranks.compiles,
                  "[compile] expected a strategy whose whole step is one program, got {}: hand it to "
                  "starling.train.Trainer(strategy=...)",
                  ranks.compiles ? "" : ranks.strategy->name());
            CompileOptions options{.disable = std::move(disable),
                                   .threads = threads,
                                   .reference_only = reference_only,
                                   .memory_budget = memory_budget,
                                   .strategy = ranks.strategy};
            new (self) PyProgram(std::move(f), std::move(options), std::move(ranks));
          },
          nb::arg("f"), nb::arg("disable"), nb::arg("threads"), nb::arg("memory_budget"), nb::arg("reference_only"),
          nb::arg("strategy").none())
      .def("call", &PyProgram::call, nb::arg("arguments"), "Results for these arguments.")
      .def(
          "explain", [](PyProgram& self) { return self.read([](auto& f) { return f.explain(); }); },
          "Times of the compilation, instructions and memory.")
      .def(
          "graph", [](PyProgram& self) { return self.read([](auto& f) { return graph::print(f.graph()); }); },
          "As it runs, as text.")
      .def(
          "traced_graph",
          [](PyProgram& self) { return self.read([](auto& f) { return graph::print(f.traced_graph()); }); },
          "As it was traced, as text.")
      .def_prop_ro(
          "memory_bytes", [](PyProgram& self) { return self.read([](auto& f) { return f.memory_bytes(); }); },
          "Bytes of its values, beside variables.")
      .def_prop_ro(
          "programs", [](PyProgram& self) { return self.read([](auto& f) { return f.programs(); }); },
          "How many programs there are, by types of arguments.");
}

}  // namespace starling::python
