#include <nanobind/stl/optional.h>

#include "define.h"
#include "starling/ops/api/arg_reduce.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/scan.h"
#include "starling/ops/api/softmax.h"
#include "starling/ops/api/sort.h"
#include "starling/ops/api/variance.h"
#include "starling/ops/def/attrs/scan.h"
#include "starling/ops/def/attrs/sort.h"
#include "starling/ops/def/attrs/variance.h"

namespace starling::python {
namespace {

// The axes may follow the tensor by position, as everywhere else in Python: sum(x, 0).
template <class Attributes, Tensor (*F)(const Tensor&, const Attributes&)>
void def_reduction(nb::module_& m, const char* name, const char* doc) {
  m.def(
      name,
      [name](const Arg& x, nb::handle axis, bool keepdim, nb::kwargs keywords) {
        auto attrs = attrs_from<Attributes>(keywords, name);
        if (!axis.is_none()) {
          if (!attrs.axes.empty()) throw nb::type_error("expected axis or axes, got both");
          const auto axes = shape_from(axis);
          if (!axes) throw nb::type_error("expected an axis or several for axis");
          attrs.axes = *axes;
        }
        attrs.keepdim = attrs.keepdim || keepdim;
        return F(x.tensor, attrs);
      },
      nb::arg("x"), nb::arg("axis") = nb::none(), nb::arg("keepdim") = false, nb::arg("attributes"), doc);
}

template <Tensor (*F)(const Tensor&, const op::ScanAttrs&)>
void def_scan(nb::module_& m, const char* name, const char* doc) {
  m.def(
      name,
      [name](const Arg& x, std::optional<std::int64_t> axis, nb::kwargs keywords) {
        auto attrs = attrs_from<op::ScanAttrs>(keywords, name);
        if (axis) attrs.axis = *axis;
        return F(x.tensor, attrs);
      },
      nb::arg("x"), nb::arg("axis") = nb::none(), nb::arg("attributes"), doc);
}

}  // namespace

void bind_reductions(nb::module_& m) {
  def_reduction<op::ReduceAttrs, &sum>(m, "sum", "The sum over some axes, or over all.");
  def_reduction<op::ReduceAttrs, &mean>(m, "mean", "The mean over some axes, or over all.");
  def_reduction<op::ReduceAttrs, &prod>(m, "prod", "The product over some axes, or over all.");
  def_reduction<op::ReduceAttrs, &max>(m, "max", "The largest value; NaN if there is one.");
  def_reduction<op::ReduceAttrs, &min>(m, "min", "The smallest value; NaN if there is one.");
  def_reduction<op::ReduceAttrs, &any>(m, "any", "Whether any element is nonzero.");
  def_reduction<op::ReduceAttrs, &all>(m, "all", "Whether every element is nonzero.");
  def_reduction<op::ReduceAttrs, &logsumexp>(m, "logsumexp", "log Σ eˣ, without overflow.");
  def_reduction<op::NormAttrs, &norm>(m, "norm", "(Σ |x|ᵖ)^(1/p).");
  def_reduction<op::VarAttrs, &var>(m, "var", "The variance.");
  def_reduction<op::VarAttrs, &stddev>(m, "std", "The standard deviation.");
  def_reduction<op::ReduceAttrs, &argmax>(m, "argmax", "Where the largest value is.");
  def_reduction<op::ReduceAttrs, &argmin>(m, "argmin", "Where the smallest value is.");
  def_axis(
      m, "softmax", [](const Arg& x, std::int64_t axis) { return softmax(x.tensor, axis); },
      "exp(x) by its sum along an axis, without overflow.", nb::arg("x"), nb::arg("axis") = -1);
  def_axis(
      m, "log_softmax", [](const Arg& x, std::int64_t axis) { return log_softmax(x.tensor, axis); },
      "log(softmax(x)), without overflow.", nb::arg("x"), nb::arg("axis") = -1);
  def_scan<&cumsum>(m, "cumsum", "Sums of all elements up to each.");
  def_scan<&cumprod>(m, "cumprod", "Products of all elements up to each.");
  def_axis(
      m, "sort",
      [](const Arg& x, std::int64_t axis, bool descending) {
        const Sorted sorted = sort(x.tensor, {axis, descending});
        return nb::make_tuple(sorted.values, sorted.indices);
      },
      "The values in order, and where they came from.", nb::arg("x"), nb::arg("axis") = -1,
      nb::arg("descending") = false);
  def_axis(
      m, "argsort",
      [](const Arg& x, std::int64_t axis, bool descending) {
        return argsort(x.tensor, {axis, descending});
      },
      "Indices that put an axis into order; equal elements keep theirs.", nb::arg("x"), nb::arg("axis") = -1,
      nb::arg("descending") = false);
  m.def(
      "topk",
      [](const Arg& x, std::int64_t k, nb::kwargs keywords) {
        auto attrs = attrs_from<op::TopkAttrs>(keywords, "topk");
        attrs.k = k;
        const Sorted sorted = topk(x.tensor, attrs);
        return nb::make_tuple(sorted.values, sorted.indices);
      },
      nb::arg("x"), nb::arg("k"), nb::arg("attributes"), "The k largest values, and where they are.");
  m.def(
      "unique",
      [](const Arg& x) {
        const Unique unique = starling::unique(x.tensor);
        return nb::make_tuple(unique.values, unique.inverse, unique.counts);
      },
      nb::arg("x"), "The values in order, each once; which one each element is; how often each occurs.");
}

}  // namespace starling::python
