#include <nanobind/stl/string.h>

#include <algorithm>
#include <vector>

#include "bind.h"
#include "convert.h"
#include "dense.h"
#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/create.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/index.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/slice.h"
#include "starling/ops/api/state.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/slice.h"

// x[...] as NumPy has it: positions, slices, ..., None, masks and index tensors, in any mixture.
namespace starling::python {
namespace {

bool is_index_array(nb::handle key) {
  if (PyLong_Check(key.ptr()) && !PyBool_Check(key.ptr())) return false;
  return nb::isinstance<Tensor>(key) || nb::isinstance<nb::list>(key) || nb::isinstance<nb::tuple>(key) ||
         PyBool_Check(key.ptr()) ||
         (nb::hasattr(key, "__dlpack__") || (nb::hasattr(key, "__array__") && !PyIndex_Check(key.ptr())));
}

std::vector<nb::object> parts_of(nb::handle key) {
  std::vector<nb::object> parts;
  if (!nb::isinstance<nb::tuple>(key)) return {nb::borrow(key)};
  for (nb::handle part : key) parts.push_back(nb::borrow(part));
  return parts;
}

// Index tensor of a part of the key; of no elements it is integers, as NumPy takes it.
Tensor index_of(nb::handle part) {
  const bool list = nb::isinstance<nb::list>(part) || nb::isinstance<nb::tuple>(part);
  return list && nb::len(part) == 0 ? full({0}, 0, DType::i64) : to_tensor(part);
}

// Axes that a part of the key takes: a mask as many as it has.
int axes_of(nb::handle part) {
  if (part.is_none() || part.ptr() == Py_Ellipsis) return 0;
  if (PyBool_Check(part.ptr())) return 0;
  if (!is_index_array(part)) return 1;
  const Tensor index = index_of(part);
  return index.dtype() == DType::boolean ? index.rank() : 1;
}

// `...` stands for all axes that no other part takes; it is at the end if not written.
std::vector<nb::object> without_ellipsis(const std::vector<nb::object>& parts, int rank) {
  int taken = 0, ellipses = 0;
  for (const auto& part : parts) {
    taken += axes_of(part);
    ellipses += part.ptr() == Py_Ellipsis ? 1 : 0;
  }
  if (ellipses > 1) throw nb::index_error("[index] expected at most one '...'");
  if (taken > rank)
    throw nb::index_error(
        fmt::format("[index] expected at most {} indices for {} dimensions, got {}", rank, rank, taken).c_str());
  std::vector<nb::object> all;
  const nb::object whole = nb::steal(PySlice_New(nullptr, nullptr, nullptr));
  for (const auto& part : parts) {
    if (part.ptr() != Py_Ellipsis)
      all.push_back(part);
    else
      for (int i = taken; i < rank; ++i) all.push_back(whole);
  }
  if (ellipses == 0)
    for (int i = taken; i < rank; ++i) all.push_back(whole);
  return all;
}

std::int64_t position(nb::handle part, std::int64_t size, int axis) {
  const nb::object number = nb::steal(PyNumber_Index(part.ptr()));
  if (!number.is_valid()) throw nb::python_error();
  const long long at = PyLong_AsLongLong(number.ptr());
  if (at == -1 && PyErr_Occurred()) throw nb::python_error();
  if (at < -size || at >= size)
    throw nb::index_error(
        fmt::format("[index] expected a position within [{}, {}) of axis {}, got {}", -size, size, axis, at).c_str());
  return at < 0 ? at + size : at;
}

Tensor sliced(const Tensor& x, nb::handle part, int axis) {
  Py_ssize_t begin = 0, end = 0, step = 0;
  if (PySlice_Unpack(part.ptr(), &begin, &end, &step) < 0) throw nb::python_error();
  const Py_ssize_t count = PySlice_AdjustIndices(x.shape()[axis], &begin, &end, step);
  if (count == x.shape()[axis] && step == 1) return x;
  if (step > 0) return slice(x, op::SliceAttrs{axis, begin, count == 0 ? begin : end, step});
  // Backwards: the same elements forwards, then reversed by an index.
  const Tensor order =
      arange(static_cast<double>(begin), static_cast<double>(begin + count * step), static_cast<double>(step));
  return count == 0 ? slice(x, op::SliceAttrs{axis, 0, 0, 1}) : index_select(x, order, axis);
}

struct Advanced {
  std::vector<int> axes;
  std::vector<Tensor> indices;
  bool adjacent = true;
};

void add_index(Advanced& advanced, const Tensor& index, int& axis) {
  const auto take = [&](const Tensor& one) {
    if (!advanced.axes.empty() && advanced.axes.back() != axis - 1) advanced.adjacent = false;
    advanced.axes.push_back(axis++);
    advanced.indices.push_back(one);
  };
  if (index.dtype() != DType::boolean) {
    if (!is_integer(index.dtype()))
      throw nb::index_error("[index] expected integers or booleans as indices: convert them first, i.to(\"i64\")");
    return take(index.dtype() == DType::i64 ? index : cast(index, DType::i64));
  }
  const Tensor places = nonzero(index);
  for (int i = 0; i < index.rank(); ++i) take(select(places, 1, i));
}

bool is_single_boolean(nb::handle part) {
  if (PyBool_Check(part.ptr())) return true;
  return nb::isinstance<Tensor>(part) && nb::cast<const Tensor&>(part).rank() == 0 &&
         nb::cast<const Tensor&>(part).dtype() == DType::boolean;
}

bool is_true(nb::handle part) {
  return PyBool_Check(part.ptr()) ? part.ptr() == Py_True : nb::cast<const Tensor&>(part).item() != 0;
}

// Index tensors: their axes first, looked up together, then the result's axes where NumPy has them.
Tensor looked_up(const Tensor& x, const Advanced& advanced) {
  Shape order;
  for (int axis : advanced.axes) order.push_back(axis);
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (std::find(advanced.axes.begin(), advanced.axes.end(), axis) == advanced.axes.end()) order.push_back(axis);
  }
  Tensor y = index_get(transpose(x, order), advanced.indices);
  const int made = y.rank() - (x.rank() - static_cast<int>(advanced.axes.size()));
  const int first = advanced.adjacent ? advanced.axes[0] : 0;
  if (first == 0) return y;
  Shape back;
  for (int i = 0; i < first; ++i) back.push_back(made + i);
  for (int i = 0; i < made; ++i) back.push_back(i);
  for (int i = made + first; i < y.rank(); ++i) back.push_back(i);
  return transpose(y, back);
}

// A single boolean takes all or nothing, along an axis of its own.
Tensor chosen_whole(const Tensor& x, bool choice, int& axis) {
  const Tensor with_axis = unsqueeze(x, Shape{axis});
  const std::int64_t size = choice ? 1 : 0;
  return slice(with_axis, op::SliceAttrs{axis++, 0, size, 1});
}

const Tensor& fitting_mask(const Tensor& index, const Tensor& x, int axis) {
  if (index.dtype() != DType::boolean) return index;
  for (int i = 0; i < index.rank(); ++i) {
    if (index.shape()[i] == x.shape()[axis + i]) continue;
    throw nb::index_error(fmt::format("[index] expected a mask of size {} along axis {}, got {}", x.shape()[axis + i],
                                      axis + i, index.shape()[i])
                              .c_str());
  }
  return index;
}

Tensor get(const Tensor& self, nb::handle key) {
  Tensor x = self;
  Advanced advanced;
  int axis = 0;
  const std::vector<nb::object> parts = without_ellipsis(parts_of(key), self.rank());
  // Beside index tensors a position is one of them, as NumPy has it.
  const bool together = std::any_of(parts.begin(), parts.end(),
                                    [](const auto& part) { return is_index_array(part) && !is_single_boolean(part); });
  for (const auto& part : parts) {
    if (part.is_none()) {
      x = unsqueeze(x, Shape{axis++});
    } else if (PySlice_Check(part.ptr())) {
      x = sliced(x, part, axis);
      ++axis;
    } else if (is_index_array(part)) {
      if (is_single_boolean(part)) {
        x = chosen_whole(x, is_true(part), axis);
      } else {
        const Tensor index = index_of(part);
        add_index(advanced, fitting_mask(index, x, axis), axis);
      }
    } else if (PyIndex_Check(part.ptr())) {
      const std::int64_t at = position(part, x.shape()[axis], axis);
      if (together)
        add_index(advanced, full({}, static_cast<double>(at), DType::i64), axis);
      else
        x = select(x, axis, at);
    } else {
      throw nb::index_error("[index] expected positions, slices, '...', None, masks or integer tensors");
    }
  }
  return advanced.axes.empty() ? x : looked_up(x, advanced);
}

void set(const Tensor& self, nb::handle key, nb::handle given) {
  check(
      !self.traced(),
      "[setitem] expected a tensor with memory, got a value of a function being compiled: use where() or index_put()");
  check(
      !(self.requires_grad() && grad_enabled()),
      "[setitem] expected a tensor without gradient, got one that requires it: write under no_grad(), or use where()");
  check(self.contiguous(), "[setitem] expected memory in row-major order, got a view with strides {}",
        to_string(self.strides()));
  Tensor value = nb::isinstance<Tensor>(given) ? nb::cast<Tensor>(given) : to_tensor(given, self.dtype());
  check(!(value.requires_grad() && grad_enabled()),
        "[setitem] expected a value without gradient, which would be lost: x.detach(), or use where() or index_put()");
  const NoGrad off;
  const Tensor part = get(self, key);
  if (value.dtype() != self.dtype()) value = cast(value, self.dtype());
  value = broadcast_to(value, part.shape());
  const bool view = part.impl()->storage.get() == self.impl()->storage.get();
  if (view && part.contiguous()) return copy_into(part, dense(value));
  // Elements that lie apart: their numbers are what the same key takes of 0, 1, 2, ...
  const Tensor numbers = get(reshape(arange(0, static_cast<double>(self.numel())), self.shape()), key);
  const Tensor flat = reshape(dense(self), {-1});
  const Tensor index = reshape(dense(numbers), {-1});
  const Tensor changed = index_put(flat, std::vector<Tensor>{index}, reshape(dense(value), {-1}));
  copy_into(self, reshape(dense(changed), self.shape()));
}

}  // namespace

void bind_indexing(nb::class_<Tensor>& tensor) {
  tensor.def("__getitem__", &get, nb::arg("key").none())
      .def("__setitem__", &set, nb::arg("key").none(), nb::arg("value"));
}

}  // namespace starling::python
