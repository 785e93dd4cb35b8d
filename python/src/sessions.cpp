#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "bind.h"
#include "convert.h"
#include "held.h"
#include "interruptible.h"
#include "starling/base/error.h"
#include "starling/graph/builder.h"
#include "starling/graph/parser.h"
#include "starling/graph/printer.h"
#include "starling/runtime/session.h"

// Graphs built by hand and sessions that run parts of them; starling/graph.py is their face.
namespace starling::python {
namespace {

// A builder catches the ops of its thread from begin to finish.
struct PyBuilder {
  std::optional<GraphBuilder> builder;

  GraphBuilder& get() {
    check(builder.has_value(),
          "[graph] expected a builder inside of its 'with' block; behind it builder.graph is what it made");
    return *builder;
  }
};

struct PyTarget {
  Target target;
};

Edge edge_of(nb::handle given) {
  if (nb::isinstance<Tensor>(given)) return nb::cast<Tensor>(given);
  return expect_text(given, "[session] expected an edge of the graph or its name");
}

Target target_of(nb::handle given) {
  if (nb::isinstance<PyTarget>(given)) return nb::cast<const PyTarget&>(given).target;
  if (nb::isinstance<Tensor>(given)) return nb::cast<Tensor>(given);
  return expect_text(given, "[session] expected a target of the graph or its name");
}

Tensor variable(PyBuilder& self, const std::string& name, nb::handle init) {
  return self.get().variable(name, to_tensor(init));
}

nb::list run(Session& self, nb::handle fetches, nb::dict feeds, nb::handle targets) {
  std::vector<Edge> edges;
  std::vector<Feed> fed;
  std::vector<Target> effects;
  for (nb::handle each : fetches) edges.push_back(edge_of(each));
  for (auto [edge, value] : feeds) fed.push_back({edge_of(edge), to_tensor(value, std::nullopt, true)});
  for (nb::handle each : targets) effects.push_back(target_of(each));
  const TensorList out = without_gil([&] { return self.run(edges, fed, effects); });
  nb::list results;
  for (const auto& tensor : out) results.append(tensor);
  return results;
}

void bind_builder(nb::module_& m) {
  nb::class_<PyTarget>(m, "Target", "Something to run for its effect.");
  nb::class_<PyBuilder>(m, "BuilderBase", "Adds the ops of its thread to a graph.")
      .def("__init__", [](PyBuilder* self) { new (self) PyBuilder{}; })
      .def(
          "_begin",
          [](PyBuilder& self) {
            check(!self.builder, "[graph] expected a builder that was not begun before");
            self.builder.emplace();
          },
          "From here on this thread's ops are added.")
      .def(
          "_finish",
          [](PyBuilder& self) {
            graph::Graph graph = self.get().finish();
            self.builder.reset();
            return graph;
          },
          "The graph; from here on ops run again.")
      .def(
          "_drop", [](PyBuilder& self) { self.builder.reset(); }, "Gives the graph up.")
      .def(
          "placeholder",
          [](PyBuilder& self, const std::string& name, DType dtype, const Shape& shape) {
            return self.get().placeholder(name, dtype, shape);
          },
          nb::arg("name"), nb::arg("dtype"), nb::arg("shape"), "An edge that must be fed with a tensor of this type.")
      .def("variable", &variable, nb::arg("name"), nb::arg("init"),
           "State kept by sessions; init is its first value, a tensor or an edge.")
      .def(
          "name",
          [](PyBuilder& self, const std::string& name, const Tensor& edge) { return self.get().name(name, edge); },
          nb::arg("name"), nb::arg("edge"), "Names an edge, to feed or fetch it by.")
      .def(
          "find", [](PyBuilder& self, const std::string& name) { return self.get().find(name); }, nb::arg("name"),
          "The edge of this name.")
      .def(
          "gradients",
          [](PyBuilder& self, const Tensor& loss, nb::handle edges) {
            nb::list list;
            for (const Tensor& each : self.get().gradients(loss, to_tensors(edges))) list.append(each);
            return list;
          },
          nb::arg("loss"), nb::arg("edges"), "Gradients of one number by edges, as edges.")
      .def(
          "read", [](PyBuilder& self, const Tensor& of) { return self.get().read(of); }, nb::arg("variable"),
          "The value of a variable here, among the assigns that a run makes.")
      .def(
          "assign",
          [](PyBuilder& self, const Tensor& of, const Arg& value, const std::string& name) {
            return PyTarget{self.get().assign(of, value.tensor, name)};
          },
          nb::arg("variable"), nb::arg("value"), nb::arg("name") = "",
          "Assigns a variable in runs asked for this target.")
      .def(
          "updates",
          [](PyBuilder& self, const std::string& name, nb::object f) {
            return PyTarget{self.get().updates(name, [&] { f(); })};
          },
          nb::arg("name"), nb::arg("f"),
          "All assigns that f makes, such as those of an optimizer's step, as one target.");
}

}  // namespace

void bind_sessions(nb::module_& m) {
  bind_builder(m);
  nb::class_<graph::Graph>(m, "Graph", "A graph of ops, as text by str().")
      .def("__str__", [](const graph::Graph& self) { return graph::print(self); });
  m.def(
      "_parse_graph", [](const std::string& text) { return graph::parse_graph(text); }, nb::arg("text"));
  nb::class_<Session>(m, "SessionBase", "A session of the library.")
      .def(
          "__init__", [](Session* self, const graph::Graph& graph) { new (self) Session(graph); }, nb::arg("graph"))
      .def("run", &run, nb::arg("fetches"), nb::arg("feeds"), nb::arg("targets"), "The fetches' values, as a list.")
      .def(
          "value", [](const Session& self, const std::string& name) { return self.container().value(name); },
          nb::arg("name"), "A copy of a variable.")
      .def(
          "set",
          [](const Session& self, const std::string& name, const Arg& value) {
            self.container().set(name, value.tensor);
          },
          nb::arg("name"), nb::arg("value"), "Overwrites a variable.")
      .def(
          "variables", [](const Session& self) { return self.container().names(); }, "Names of the variables.")
      .def(
          "reset", [](const Session& self) { self.container().reset(); }, "Gives all variables their first values.");
}

}  // namespace starling::python
