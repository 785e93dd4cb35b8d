#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "convert.h"
#include "dense.h"
#include "described.h"
#include "places.h"
#include "starling/base/error.h"
#include "starling/ops/api/creation.h"
#include "starling/tensor/bytes.h"
#include "starling/train/metric.h"

namespace starling::python {
namespace {

struct PyMetric {
  std::string name;
  std::unique_ptr<Metric> metric;
};

Tensor on_host(const Tensor& given) { return dense(to(given.detach(), kCpu)); }

Tensor judged_target(const Tensor& given) {
  const DType wanted = is_float(given.dtype()) ? DType::f32 : DType::i64;
  return on_host(given.dtype() == wanted ? given : cast(given, wanted));
}

void update(PyMetric& self, const Arg& prediction, const Arg& target, double loss, std::optional<double> weight) {
  const Tensor said = prediction.tensor;
  const Tensor fields[] = {on_host(said.dtype() == DType::f32 ? said : cast(said, DType::f32)),
                           judged_target(target.tensor)};
  const double samples = fields[0].rank() > 0 ? static_cast<double>(fields[0].shape()[0]) : 1;
  self.metric->add({.prediction = fields[0],
                    .target = fields[1],
                    .fields = fields,
                    .loss = loss,
                    .weight = weight.value_or(samples)});
}

std::vector<double> sums(const PyMetric& self) {
  const auto own = self.metric->sums();
  check(own.has_value(), "[{}] expected a metric that adds up over ranks, got one that must see every batch itself",
        self.name);
  return *own;
}

}  // namespace

void bind_metrics(nb::module_& m) {
  nb::class_<PyMetric>(m, "MetricBase", "A metric of the library.")
      .def("update", &update, nb::arg("prediction"), nb::arg("target"), nb::arg("loss") = 0.0,
           nb::arg("weight") = nb::none(), "Adds a batch: predictions with classes on the last axis, and labels.")
      .def_prop_ro(
          "value", [](const PyMetric& self) { return self.metric->value(); }, "NaN before the first batch.")
      .def(
          "reset", [](PyMetric& self) { self.metric->reset(); }, "Begins anew.")
      .def("sums", &sums, "The state as numbers, for join() of another rank's.")
      .def(
          "join", [](PyMetric& self, const std::vector<double>& other) { self.metric->join(other); }, nb::arg("sums"),
          "Adds what another one of the same kind has seen.")
      .def_prop_ro(
          "higher_is_better", [](const PyMetric& self) { return self.metric->higher_is_better(); },
          "Whether more of it is better.")
      .def(
          "table",
          [](const PyMetric& self, const std::vector<std::string>& names) { return self.metric->table(names); },
          nb::arg("class_names") = std::vector<std::string>{}, "Details as text, such as a confusion matrix.");
  m.def("_metric_kinds", [] { return described(metric_kinds()); });
  m.def("_make_metric", [](const std::string& kind, const std::string& options) {
    const ConfigNode node = ConfigNode::parse(options, kind);
    return without_places(kind, [&] { return PyMetric{kind, metric_kinds().choose_named(kind, node, node).make()}; });
  });
}

}  // namespace starling::python
