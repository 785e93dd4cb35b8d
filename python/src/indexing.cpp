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
#include "starling/ops/def/attrs/slice.h"
#include "starling/tensor/interpreter.h"
#include "strided.h"
#include "traced_writes.h"

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

const Tensor& fitting_mask(const Tensor& index, const Shape& shape, int axis) {
  if (index.dtype() != DType::boolean) return index;
  for (int i = 0; i < index.rank(); ++i) {
    if (index.shape()[i] == shape[axis + i]) continue;
    throw nb::index_error(fmt::format("[index] expected a mask of size {} along axis {}, got {}", shape[axis + i],
                                      axis + i, index.shape()[i])
                              .c_str());
  }
  return index;
}

// Beside index tensors a position is one of them, as NumPy has it.
bool has_index_arrays(const std::vector<nb::object>& parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [](const auto& part) { return is_index_array(part) && !is_single_boolean(part); });
}

Tensor get(const Tensor& self, nb::handle key) {
  Tensor x = self;
  Advanced advanced;
  int axis = 0;
  const std::vector<nb::object> parts = without_ellipsis(parts_of(key), self.rank());
  const bool together = has_index_arrays(parts);
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
        add_index(advanced, fitting_mask(index, x.shape(), axis), axis);
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

// The part of a tensor that a key names, before index tensors take their pick: elements in its memory.
struct Part {
  Shape shape;
  Shape strides;  // negative for slices that run backwards
  std::int64_t offset = 0;
  Advanced advanced{};

  void add_axis(int axis, std::int64_t size) {
    shape.insert(axis, size);
    strides.insert(axis, 0);
  }
  void take(int axis, std::int64_t at) {
    offset += at * strides[axis];
    shape.erase(axis);
    strides.erase(axis);
  }
  void take(int axis, nb::handle part) {
    Py_ssize_t begin = 0, end = 0, step = 0;
    if (PySlice_Unpack(part.ptr(), &begin, &end, &step) < 0) throw nb::python_error();
    const Py_ssize_t count = PySlice_AdjustIndices(shape[axis], &begin, &end, step);
    if (count > 0) offset += begin * strides[axis];
    shape[axis] = count;
    strides[axis] *= step;
  }
};

// One part of a key, from `axis` on; moves `axis` behind what it takes.
void narrow(Part& part, nb::handle key, bool together, int& axis) {
  if (key.is_none()) return part.add_axis(axis++, 1);
  if (PySlice_Check(key.ptr())) return part.take(axis++, key);
  if (is_index_array(key)) {
    if (is_single_boolean(key)) return part.add_axis(axis++, is_true(key) ? 1 : 0);
    const Tensor index = index_of(key);
    return add_index(part.advanced, fitting_mask(index, part.shape, axis), axis);
  }
  if (!PyIndex_Check(key.ptr()))
    throw nb::index_error("[index] expected positions, slices, '...', None, masks or integer tensors");
  const std::int64_t at = position(key, part.shape[axis], axis);
  if (!together) return part.take(axis, at);
  add_index(part.advanced, full({}, static_cast<double>(at), DType::i64), axis);
}

Part part_of(const Tensor& self, nb::handle key) {
  Part part{.shape = self.shape(), .strides = self.strides()};
  const std::vector<nb::object> keys = without_ellipsis(parts_of(key), self.rank());
  const bool together = has_index_arrays(keys);
  int axis = 0;
  for (const auto& one : keys) narrow(part, one, together, axis);
  return part;
}

Shape common_shape(const std::vector<Tensor>& indices) {
  Shape shape;
  for (const Tensor& index : indices) {
    for (int i = shape.rank(); i < index.rank(); ++i) shape.insert(0, 1);
    for (int i = 1; i <= index.rank(); ++i) {
      std::int64_t& size = shape[shape.rank() - i];
      const std::int64_t own = index.shape()[index.rank() - i];
      if (own != size && own != 1 && size != 1)
        throw nb::index_error(fmt::format("[index] expected index tensors of shapes that broadcast, got {} beside {}",
                                          to_string(index.shape()), to_string(shape))
                                  .c_str());
      size = own == 1 ? size : own;
    }
  }
  return shape;
}

// Where index tensors take their pick: offsets in elements, in row-major order of the tensors' common shape.
std::vector<std::int64_t> picked_offsets(const Part& part, const Shape& common) {
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(common.numel()), part.offset);
  for (std::size_t i = 0; i < part.advanced.axes.size(); ++i) {
    const int axis = part.advanced.axes[i];
    const Tensor index = dense(broadcast_to(part.advanced.indices[i], common));
    const auto* const at = index.data<std::int64_t>();
    const std::int64_t size = part.shape[axis];
    for (std::size_t k = 0; k < offsets.size(); ++k) {
      if (at[k] < -size || at[k] >= size)
        throw nb::index_error(
            fmt::format("[index] expected a position within [{}, {}) of axis {}, got {}", -size, size, axis, at[k])
                .c_str());
      offsets[k] += (at[k] < 0 ? at[k] + size : at[k]) * part.strides[axis];
    }
  }
  return offsets;
}

void* address(const Tensor& tensor, std::int64_t offset) {
  return static_cast<std::byte*>(tensor.raw()) + offset * static_cast<std::int64_t>(size_of(tensor.dtype()));
}

// The value in the shape of what is written; a value with more axes of size 1 in front fits, as in NumPy.
Tensor fitted(Tensor value, const Shape& shape) {
  while (value.rank() > shape.rank() && value.shape()[0] == 1) value = select(value, 0, 0);
  return broadcast_to(value, shape);
}

void write_picked(const Tensor& self, const Part& part, const Tensor& given) {
  const Advanced& advanced = part.advanced;
  const Shape common = common_shape(advanced.indices);
  const int first = advanced.adjacent ? advanced.axes[0] : 0;  // of the common shape's axes in the result
  Shape rest, strides, whole;
  for (int axis = 0; axis < part.shape.rank(); ++axis) {
    if (std::find(advanced.axes.begin(), advanced.axes.end(), axis) != advanced.axes.end()) continue;
    rest.push_back(part.shape[axis]);
    strides.push_back(part.strides[axis]);
  }
  for (int i = 0; i < first; ++i) whole.push_back(rest[i]);
  for (const std::int64_t size : common) whole.push_back(size);
  for (int i = first; i < rest.rank(); ++i) whole.push_back(rest[i]);
  const Tensor value = fitted(given, whole);
  Shape picks, rows;  // strides of the value along the common shape and along the rest
  for (int i = 0; i < whole.rank(); ++i)
    (i >= first && i < first + common.rank() ? picks : rows).push_back(value.strides()[i]);
  const std::vector<std::int64_t> offsets = picked_offsets(part, common);
  for (std::size_t k = 0; k < offsets.size(); ++k) {
    std::int64_t from = 0;
    auto left = static_cast<std::int64_t>(k);
    for (int i = common.rank(); i-- > 0; left /= common[i]) from += left % common[i] * picks[i];
    copy_elements(rest, size_of(self.dtype()), {address(value, from), rows}, {address(self, offsets[k]), strides});
  }
}

bool share_memory(const Tensor& a, const Tensor& b) {
  const Storage &one = *a.impl()->storage, &other = *b.impl()->storage;
  const auto* const first = static_cast<const std::byte*>(one.data());
  const auto* const second = static_cast<const std::byte*>(other.data());
  return first < second + other.bytes() && second < first + one.bytes();
}

// Elements of a view go straight to their places; whatever the value shares with them is read before.
void write(const Tensor& self, nb::handle key, Tensor value) {
  static_cast<void>(self.raw()), static_cast<void>(value.raw());  // of pieces there is none here
  check(!self.impl()->storage->read_only(), "[setitem] expected memory that may be written, got a read-only tensor");
  const Part part = part_of(self, key);
  if (share_memory(self, value)) value = dense_copy(value);
  if (part.advanced.axes.empty()) {
    value = fitted(value, part.shape);
    copy_elements(part.shape, size_of(self.dtype()), {value.raw(), value.strides()},
                  {address(self, part.offset), part.strides});
  } else {
    write_picked(self, part, value);
  }
  self.impl()->storage->bump_version();
}

// The same on other devices, by ops.
void write_by_ops(const Tensor& self, nb::handle key, Tensor value) {
  check(self.contiguous(), "[setitem] expected memory in row-major order on {}, got a view with strides {}",
        to_string(self.device()), to_string(self.strides()));
  value = to(dense(value), self.device());
  const Tensor part = get(self, key);
  value = dense(fitted(value, part.shape()));
  const bool view = part.impl()->storage.get() == self.impl()->storage.get();
  const bool overlaps = value.impl()->storage.get() == self.impl()->storage.get();
  if (view && part.contiguous()) return copy_into(part, overlaps ? copied(value) : value);
  // Elements that lie apart: their numbers are what the same key takes of 0, 1, 2, ...
  const Tensor numbers =
      get(to(reshape(arange(0, static_cast<double>(self.numel())), self.shape()), self.device()), key);
  const Tensor changed =
      index_put(reshape(self, {-1}), std::vector<Tensor>{reshape(dense(numbers), {-1})}, reshape(value, {-1}));
  copy_into(self, reshape(changed, self.shape()));
}

// In a function being compiled: the elements' numbers are what the same key takes of 0, 1, 2, ...
void write_traced(Tensor& self, nb::handle key, const Tensor& value) {
  expect_own_value(self);
  for (const auto& part : parts_of(key))
    check(!(nb::isinstance<Tensor>(part) && nb::cast<const Tensor&>(part).traced()),
          "[setitem] expected positions that are known while the function is compiled, got a traced index: use "
          "index_put()");
  Tensor numbers;
  {
    const InterpreterScope eager(eager_interpreter());
    numbers = dense(get(reshape(arange(0, static_cast<double>(self.numel())), self.shape()), key));
  }
  const Tensor fitting = fitted(value, numbers.shape());
  const Tensor changed =
      index_put(reshape(self, {-1}), std::vector<Tensor>{reshape(numbers, {-1})}, reshape(fitting, {-1}));
  hold_another(self, reshape(changed, self.shape()));
}

void set(Tensor& self, nb::handle key, nb::handle given) {
  check(
      !(self.requires_grad() && grad_enabled()),
      "[setitem] expected a tensor without gradient, got one that requires it: write under no_grad(), or use where()");
  Tensor value = nb::isinstance<Tensor>(given) ? nb::cast<Tensor>(given) : to_tensor(given, self.dtype(), true);
  check(!(value.requires_grad() && grad_enabled()),
        "[setitem] expected a value without gradient, which would be lost: x.detach(), or use where() or index_put()");
  if (self.traced()) {
    const NoGrad off;
    return write_traced(self, key, value.dtype() == self.dtype() ? value : cast(value, self.dtype()));
  }
  check(!value.traced(),
        "[setitem] expected a value with memory, got one of a function being compiled: x.assign(value)");
  const NoGrad off;
  for (const Tensor* each : {static_cast<const Tensor*>(&self), static_cast<const Tensor*>(&value)})
    each->raw();  // of a row-sparse one: made now
  if (value.dtype() != self.dtype()) value = cast(value, self.dtype());
  const bool on_cpu = self.device().kind == DeviceKind::cpu && value.device().kind == DeviceKind::cpu;
  on_cpu ? write(self, key, value) : write_by_ops(self, key, value);
}

}  // namespace

void bind_indexing(nb::class_<Tensor>& tensor) {
  tensor.def("__getitem__", &get, nb::arg("key").none())
      .def("__setitem__", &set, nb::arg("key").none(), nb::arg("value"));
}

}  // namespace starling::python
