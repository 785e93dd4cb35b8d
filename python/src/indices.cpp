#include <fmt/format.h>

#include "define.h"
#include "starling/ops/api/index.h"
#include "starling/ops/api/row_sparse.h"
#include "starling/ops/api/vision.h"

namespace starling::python {

namespace {

// PyTorch's order is (x, axis, index).
const Tensor& index_given(const char* who, const Arg& index) {
  if (index.tensor.rank() == 0)
    throw nb::type_error(
        fmt::format("[{0}] expected an index tensor behind x, got a number: {0}(x, index, axis=1)", who).c_str());
  return index.tensor;
}

}  // namespace

void bind_indices(nb::module_& m) {
  def_axis(
      m, "gather",
      [](const Arg& x, const Arg& index, std::int64_t axis) {
        return gather(x.tensor, index_given("gather", index), axis);
      },
      "Elements along an axis at these indices.", nb::arg("x"), nb::arg("index"), nb::arg("axis"));
  def_axis(
      m, "scatter",
      [](const Arg& x, const Arg& index, const Arg& source, std::int64_t axis) {
        return scatter(x.tensor, index_given("scatter", index), source.tensor, axis);
      },
      "x with the source written at these indices.", nb::arg("x"), nb::arg("index"), nb::arg("source"),
      nb::arg("axis"));
  def_axis(
      m, "scatter_add",
      [](const Arg& x, const Arg& index, const Arg& source, std::int64_t axis) {
        return scatter_add(x.tensor, index_given("scatter_add", index), source.tensor, axis);
      },
      "x with the source added at these indices.", nb::arg("x"), nb::arg("index"), nb::arg("source"), nb::arg("axis"));
  def_axis(
      m, "index_select",
      [](const Arg& x, const Arg& index, std::int64_t axis) { return index_select(x.tensor, index.tensor, axis); },
      "Slices of one axis at these indices.", nb::arg("x"), nb::arg("index"), nb::arg("axis") = 0);
  def_axis(
      m, "index_add",
      [](const Arg& x, const Arg& index, const Arg& source, std::int64_t axis) {
        return index_add(x.tensor, index.tensor, source.tensor, axis);
      },
      "x with slices of the source added at these indices of one axis.", nb::arg("x"), nb::arg("index"),
      nb::arg("source"), nb::arg("axis") = 0);
  m.def(
      "take", [](const Arg& x, const Arg& index) { return take(x.tensor, index.tensor); }, nb::arg("x"),
      nb::arg("index"), "Elements of the flattened x.");
  m.def(
      "index_put",
      [](const Arg& x, nb::handle indices, const Arg& values, bool accumulate) {
        return index_put(x.tensor, to_tensors(indices), values.tensor, accumulate);
      },
      nb::arg("x"), nb::arg("indices"), nb::arg("values"), nb::arg("accumulate") = false,
      "x with values written or added at index tensors of the leading axes.");
  m.def(
      "one_hot",
      [](const Arg& index, std::int64_t classes, DType dtype) { return one_hot(index.tensor, classes, dtype); },
      nb::arg("index"), nb::arg("classes"), nb::arg("dtype") = DType::i64,
      "A new last axis that is 1 at the index and 0 elsewhere.");
  m.def(
      "nonzero", [](const Arg& x) { return nonzero(x.tensor); }, nb::arg("x"),
      "Indices of all elements other than 0: [count, rank].");
  m.def(
      "nms",
      [](const Arg& boxes, const Arg& scores, double threshold) { return nms(boxes.tensor, scores.tensor, threshold); },
      nb::arg("boxes"), nb::arg("scores"), nb::arg("iou_threshold") = 0.5,
      "Indices of the boxes to keep, best first: none overlaps a better one by more than the threshold.");
  m.def(
      "is_row_sparse", [](const Tensor& x) { return is_row_sparse(x); }, nb::arg("x"),
      "Whether only some rows are stored, as of gradients of a sparse Embedding.");
  m.def(
      "to_dense", [](const Tensor& x) { return starling::dense(x); }, nb::arg("x"),
      "All rows of what may be row-sparse.");
}

}  // namespace starling::python
