#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "define.h"
#include "starling/ops/api/create.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/pad.h"
#include "starling/ops/api/rearrange.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/triangular.h"
#include "starling/ops/api/unfold.h"
#include "starling/ops/def/attrs/pad.h"
#include "starling/ops/def/attrs/unfold.h"
#include "starling/ops/def/attrs/views.h"

namespace starling::python {
namespace {

Tensor wanting_gradients(Tensor made, bool wanted) {
  if (wanted) made.set_requires_grad();
  return made;
}

// A function of a shape, which may be given as sizes one by one.
template <class F>
void def_sized(nb::module_& m, const char* name, F make, const char* doc) {
  m.def(
      name,
      [make](const Shape& shape, DType dtype, Device device, bool requires_grad) {
        return wanting_gradients(make(shape, dtype, device), requires_grad);
      },
      nb::arg("shape"), nb::arg("dtype") = DType::f32, nb::arg("device") = kCpu, nb::arg("requires_grad") = false, doc);
  m.def(
      name,
      [make, name](nb::args sizes, DType dtype, Device device, bool requires_grad) {
        const auto shape = shape_from(nb::len(sizes) > 0 ? nb::object(sizes) : nb::none());
        if (!shape) throw nb::next_overload();
        return wanting_gradients(make(*shape, dtype, device), requires_grad);
      },
      nb::arg("sizes"), nb::kw_only(), nb::arg("dtype") = DType::f32, nb::arg("device") = kCpu,
      nb::arg("requires_grad") = false);
}

void bind_creation(nb::module_& m) {
  const auto placed = [](const Tensor& made, Device device) {
    return device == made.device() ? made : to(made, device);
  };
  const auto filled = [=](const Shape& shape, double value, DType dtype, Device device) {
    return placed(full(shape, value, dtype), device);
  };
  m.def(
      "full",
      [=](const Shape& shape, nb::handle value, DType dtype, Device device, bool requires_grad) {
        return wanting_gradients(placed(tensor_of_one(shape, value, dtype), device), requires_grad);
      },
      nb::arg("shape"), nb::arg("value"), nb::arg("dtype") = DType::f32, nb::arg("device") = kCpu,
      nb::arg("requires_grad") = false, "A tensor of one value.");
  def_sized(
      m, "zeros", [=](const Shape& shape, DType dtype, Device device) { return filled(shape, 0, dtype, device); },
      "A tensor of zeros: zeros(2, 3) or zeros((2, 3)).");
  def_sized(
      m, "ones", [=](const Shape& shape, DType dtype, Device device) { return filled(shape, 1, dtype, device); },
      "A tensor of ones: ones(2, 3) or ones((2, 3)).");
  def_sized(
      m, "empty", [](const Shape& shape, DType dtype, Device device) { return empty(shape, dtype, device); },
      "A tensor whose values are undefined: empty(2, 3) or empty((2, 3)).");
  const auto like = [&m](const char* name, double value, const char* doc) {
    m.def(
        name,
        [value](const Arg& x, std::optional<DType> dtype) {
          return full(x.tensor.shape(), value, dtype.value_or(x.tensor.dtype()));
        },
        nb::arg("x"), nb::arg("dtype") = nb::none(), doc);
  };
  like("zeros_like", 0, "Zeros in the shape of x, and in its dtype unless another is given.");
  like("ones_like", 1, "Ones in the shape of x, and in its dtype unless another is given.");
  m.def(
      "full_like",
      [](const Arg& x, nb::handle value) { return tensor_of_one(x.tensor.shape(), value, x.tensor.dtype()); },
      nb::arg("x"), nb::arg("value"), "One value in the shape and dtype of x.");
  m.def(
      "arange",
      [](nb::handle first, nb::handle end, nb::handle step, std::optional<DType> dtype) {
        const bool whole =
            PyLong_Check(first.ptr()) && (end.is_none() || PyLong_Check(end.ptr())) && PyLong_Check(step.ptr());
        const DType made = dtype.value_or(whole ? DType::i64 : DType::f32);
        if (end.is_none()) return arange(0, scalar_value(first), scalar_value(step), made);
        return arange(scalar_value(first), scalar_value(end), scalar_value(step), made);
      },
      nb::arg("start"), nb::arg("end") = nb::none(), nb::arg("step") = 1, nb::arg("dtype") = nb::none(),
      "start, start + step, … before end.");
  m.def("linspace", &linspace, nb::arg("start"), nb::arg("end"), nb::arg("count"), nb::arg("dtype") = DType::f32,
        "Evenly spaced numbers from start to end, both included.");
  m.def("eye", &eye, nb::arg("rows"), nb::arg("columns") = -1, nb::arg("dtype") = DType::f32, "The identity matrix.");
  m.def(
      "meshgrid", [](nb::args xs, const std::string& indexing) { return meshgrid(to_tensors(xs), indexing); },
      nb::arg("xs"), nb::arg("indexing") = "ij", "Coordinates of a grid, one tensor per vector.");
  m.def(
      "cast", [](const Arg& x, DType dtype) { return cast(x.tensor, dtype); }, nb::arg("x"), nb::arg("dtype"),
      "The same values in another dtype.");
}

void bind_views(nb::module_& m) {
  m.def(
      "reshape", [](const Arg& x, const Shape& shape) { return reshape(x.tensor, shape); }, nb::arg("x"),
      nb::arg("shape"), "The same elements in another shape; one size may be -1.");
  m.def(
      "flatten", [](const Arg& x, int first) { return flatten(x.tensor, first); }, nb::arg("x"), nb::arg("first") = 0,
      "All axes from `first` on as one.");
  m.def(
      "transpose", [](const Arg& x, const Shape& order) { return transpose(x.tensor, order); }, nb::arg("x"),
      nb::arg("order") = Shape{}, "Axes in this order; reversed by default.");
  m.def(
      "permute", [](const Arg& x, const Shape& order) { return permute(x.tensor, order); }, nb::arg("x"),
      nb::arg("order"), "The axes in this order.");
  m.def(
      "swapaxes", [](const Arg& x, std::int64_t a, std::int64_t b) { return swapaxes(x.tensor, a, b); }, nb::arg("x"),
      nb::arg("a"), nb::arg("b"), "Two axes exchanged.");
  m.def(
      "movedim", [](const Arg& x, std::int64_t from, std::int64_t to) { return movedim(x.tensor, from, to); },
      nb::arg("x"), nb::arg("source"), nb::arg("destination"),
      "One axis moved to another place, the others in their order.");
  def_axis(
      m, "squeeze", [](const Arg& x, const Shape& axis) { return squeeze(x.tensor, axis); },
      "Without these axes of size 1; without all of them by default.", nb::arg("x"), nb::arg("axis") = Shape{});
  def_axis(
      m, "unsqueeze", [](const Arg& x, const Shape& axis) { return unsqueeze(x.tensor, axis); },
      "With axes of size 1 at these positions of the result.", nb::arg("x"), nb::arg("axis"));
  m.def(
      "expand", [](const Arg& x, const Shape& shape) { return expand(x.tensor, shape); }, nb::arg("x"),
      nb::arg("shape"), "Broadcast to a shape; -1 keeps a size.");
  m.def(
      "broadcast_to", [](const Arg& x, const Shape& shape) { return broadcast_to(x.tensor, shape); }, nb::arg("x"),
      nb::arg("shape"), "x repeated along axes of size 1, and along new first ones, to a shape; no memory is copied.");
  def_with<op::DiagonalAttrs, &diagonal>(m, "diagonal", "The diagonal of two axes, as the last axis.");
  def_with<op::DiagonalAttrs, &diag_embed>(m, "diag_embed", "Matrices with x on their diagonal.");
}

void bind_rearranging(nb::module_& m) {
  def_axis(
      m, "concat", [](nb::handle xs, std::int64_t axis) { return concat(to_tensors(xs), axis); },
      "Tensors one after another along an axis.", nb::arg("xs"), nb::arg("axis") = 0);
  def_axis(
      m, "stack", [](nb::handle xs, std::int64_t axis) { return stack(to_tensors(xs), axis); },
      "Tensors along a new axis.", nb::arg("xs"), nb::arg("axis") = 0);
  def_axis(
      m, "split",
      [](const Arg& x, nb::handle given_pieces, std::int64_t axis) {
        const auto shape = shape_from(given_pieces);
        if (!shape) throw nb::type_error("[split] expected a number of pieces or their sizes");
        const Shape& pieces = *shape;
        if (PyIndex_Check(given_pieces.ptr())) return split(x.tensor, pieces[0], axis);
        return split(x.tensor, std::span(pieces.begin(), pieces.end()), axis);
      },
      "As many equal pieces, or pieces of these sizes.", nb::arg("x"), nb::arg("pieces"), nb::arg("axis") = 0);
  def_axis(
      m, "unbind", [](const Arg& x, std::int64_t axis) { return unbind(x.tensor, axis); }, "The slices along an axis.",
      nb::arg("x"), nb::arg("axis") = 0);
  def_axis(
      m, "narrow",
      [](const Arg& x, std::int64_t axis, std::int64_t begin, std::int64_t size) {
        return narrow(x.tensor, axis, begin, size);
      },
      "So many slices of one axis, from one on; the same memory.", nb::arg("x"), nb::arg("axis"), nb::arg("begin"),
      nb::arg("size"));
  m.def(
      "tile", [](const Arg& x, const Shape& reps) { return tile(x.tensor, reps); }, nb::arg("x"), nb::arg("reps"),
      "The whole tensor repeated.");
  def_axis(
      m, "repeat",
      [](const Arg& x, std::int64_t repeats, std::int64_t axis) { return repeat(x.tensor, repeats, axis); },
      "Each element repeated.", nb::arg("x"), nb::arg("repeats"), nb::arg("axis") = -1);
  def_axis(
      m, "flip", [](const Arg& x, const Shape& axis) { return flip(x.tensor, axis); },
      "The order along these axes turned around.", nb::arg("x"), nb::arg("axis"));
  def_axis(
      m, "roll", [](const Arg& x, const Shape& shift, const Shape& axis) { return roll(x.tensor, shift, axis); },
      "Shifted along these axes; what leaves at the end comes in at the beginning.", nb::arg("x"), nb::arg("shift"),
      nb::arg("axis"));
  m.def(
      "tril", [](const Arg& x, std::int64_t k) { return tril(x.tensor, k); }, nb::arg("x"), nb::arg("diagonal") = 0,
      "What is on a diagonal of matrices or below it, zeros elsewhere.");
  m.def(
      "triu", [](const Arg& x, std::int64_t k) { return triu(x.tensor, k); }, nb::arg("x"), nb::arg("diagonal") = 0,
      "What is on a diagonal of matrices or above it, zeros elsewhere.");
  def_with<op::PadAttrs, &pad>(m, "pad", "x with elements added before and after each axis.");
  def_with<op::UnfoldAttrs, &unfold>(m, "unfold", "The windows of images as columns.");
  def_with<op::FoldAttrs, &fold>(m, "fold", "Columns added back into images.");
}

}  // namespace

void bind_shapes(nb::module_& m) {
  bind_creation(m);
  bind_views(m);
  bind_rearranging(m);
}

}  // namespace starling::python
