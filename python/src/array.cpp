#include "array.h"

#include <fmt/format.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "bind.h"
#include "convert.h"
#include "dense.h"
#include "dlpack.h"
#include "dlpack_abi.h"
#include "held.h"
#include "numpy_buffer.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/shape_ops.h"

namespace starling::python {
namespace {

using Array = nb::ndarray<nb::ro>;

// Memory of an array, held until the last tensor of it is gone.
Ref<Storage> storage_of(const Array& array, void* data, std::size_t bytes, bool read_only) {
  auto* held = new Array(array);
  const auto drop = [held](void*) {
    if (!python_is_there()) return;
    const nb::gil_scoped_acquire gil;
    delete held;
  };
  return Ref<Storage>(new Storage(kCpu, data, bytes, drop, read_only));
}

bool is_plain(const Array& array) {
  for (std::size_t i = 0; i < array.ndim(); ++i) {
    if (array.stride(i) < 0 && array.shape(i) > 1) return false;
  }
  return true;
}

nb::object numpy() { return nb::module_::import_("numpy"); }

bool writable(nb::handle array) { return nb::cast<bool>(array.attr("flags").attr("writeable")); }

Tensor shared_array(const Array& array, bool read_only) {
  Shape shape, strides;
  std::int64_t last = 0;
  for (std::size_t i = 0; i < array.ndim(); ++i) {
    shape.push_back(static_cast<std::int64_t>(array.shape(i)));
    strides.push_back(array.stride(i));
    if (shape.back() > 0) last += (shape.back() - 1) * strides.back();
  }
  const DType dtype = dlpack::dtype_of_code(array.dtype());
  const std::size_t bytes = shape.numel() == 0 ? 0 : static_cast<std::size_t>(last + 1) * size_of(dtype);
  const Ref<Storage> storage = storage_of(array, const_cast<void*>(array.data()), bytes, read_only);
  const Tensor whole = from_storage(storage, dtype, Shape{static_cast<std::int64_t>(bytes / size_of(dtype))});
  return view_of(whole, shape, strides, 0);
}

}  // namespace

namespace {

bool in_native_order(nb::handle array) { return nb::cast<bool>(array.attr("dtype").attr("isnative")); }

// An array of NumPy, or one that it makes of buffers and of what has __array__.
Tensor numpy_tensor(nb::object array, Sharing sharing) {
  array = numpy().attr("asarray")(array);  // scalars of NumPy are no arrays yet, either
  if (nb::cast<int>(array.attr("ndim")) > kMaxRank) throw nb::value_error("[tensor] expected at most 8 dimensions");
  bool copied = false;
  if (!in_native_order(array)) {
    array = array.attr("astype")(array.attr("dtype").attr("newbyteorder")("="));
    copied = true;
  }
  Array view;
  if (!nb::try_cast(array, view))
    throw nb::type_error(fmt::format("[tensor] expected an array of numbers in memory, got {}",
                                     nb::cast<std::string>(nb::repr(array.type())))
                             .c_str());
  if (!is_plain(view)) {
    array = numpy().attr("ascontiguousarray")(array);
    view = nb::cast<Array>(array);
    copied = true;
  }
  const bool aligned = reinterpret_cast<std::uintptr_t>(view.data()) % (view.dtype().bits / 8) == 0;
  if (sharing == Sharing::must && (copied || !aligned))
    throw nb::value_error(
        "[tensor] expected an array to share, aligned, in native byte order and without negative "
        "strides, got one that has to be copied");
  const Tensor shared = shared_array(view, !copied && !writable(array));
  if (copied) return aligned ? shared : dense_copy(shared);  // the copy belongs to no other array
  return sharing == Sharing::no || !aligned ? dense_copy(shared) : shared;
}

}  // namespace

Tensor array_tensor(nb::handle given, Sharing sharing) {
  if (const auto plain = numpy_buffer_tensor(given, sharing)) return *plain;
  const bool numpys = nb::hasattr(given, "__array_interface__") || !is_dlpack(given);
  return numpys ? numpy_tensor(nb::borrow(given), sharing) : dlpack_tensor(given, sharing);
}

bool holds_tensors(nb::handle list, int depth) {
  if (depth > kMaxRank) return false;  // too deep for a tensor, perhaps a list that holds itself
  for (nb::handle item : list) {
    if (nb::isinstance<Tensor>(item) || nb::hasattr(item, "__array__")) return true;
    const bool nested = nb::isinstance<nb::list>(item) || nb::isinstance<nb::tuple>(item);
    if (nested && holds_tensors(item, depth + 1)) return true;
  }
  return false;
}

Tensor stacked(nb::handle list) {
  std::vector<Tensor> tensors;
  for (nb::handle item : list) tensors.push_back(to_tensor(item));
  DType dtype = tensors[0].dtype();
  for (const Tensor& tensor : tensors) dtype = promote(dtype, tensor.dtype());
  for (Tensor& tensor : tensors) {
    if (tensor.dtype() != dtype) tensor = cast(tensor, dtype);
  }
  return stack(tensors);
}

namespace {

// The memory of a tensor of the CPU as an array; it holds the tensor.
nb::object array_of(const Tensor& tensor) {
  const Tensor detached = tensor.detach();
  std::vector<std::size_t> shape(detached.shape().begin(), detached.shape().end());
  std::vector<std::int64_t> strides(detached.strides().begin(), detached.strides().end());
  const nb::object owner = nb::cast(detached);
  const auto dtype = dlpack::dtype_code(tensor.dtype());
  const auto make = [&](auto array) { return nb::cast(array, nb::rv_policy::reference); };
  void* data = detached.raw();
  if (detached.impl()->storage->read_only())
    return make(nb::ndarray<nb::numpy, nb::ro>(data, shape.size(), shape.data(), owner, strides.data(), dtype));
  return make(nb::ndarray<nb::numpy>(data, shape.size(), shape.data(), owner, strides.data(), dtype));
}

nb::object numpy_of(const Tensor& tensor) {
  if (tensor.dtype() == DType::bf16)
    throw nb::type_error("[numpy] expected a dtype that NumPy has, got bf16: convert it first, x.to(\"f32\")");
  return array_of(tensor.device().kind == DeviceKind::cpu ? tensor : to(tensor, kCpu));
}

Tensor from_dlpack(nb::handle array, std::optional<Device> device, std::optional<bool> copy) {
  if (!is_dlpack(array)) refuse_type("[from_dlpack] expected an array with __dlpack__", array);
  const Sharing sharing = !copy ? Sharing::where_can : *copy ? Sharing::no : Sharing::must;
  if (!nb::hasattr(array, "__array_interface__")) return dlpack_tensor(array, sharing, device);
  const Tensor made = array_tensor(array, sharing);
  if (!device || made.device() == *device) return made;
  if (sharing == Sharing::must)
    throw nb::value_error("[from_dlpack] expected copy=True or None for another device, got False");
  return to(made, *device);
}

}  // namespace

void bind_arrays(nb::module_& m, nb::class_<Tensor>& tensor) {
  tensor
      .def("numpy", &numpy_of,
           "The values as a NumPy array that shares the tensor's memory (a copy if it is on a GPU).")
      .def(
          "__array__",
          [](const Tensor& self, nb::handle dtype, nb::handle copy) {
            nb::object array = numpy_of(self);
            if (!dtype.is_none()) array = array.attr("astype")(dtype, nb::arg("copy") = false);
            if (copy.ptr() == Py_True) array = array.attr("copy")();
            return array;
          },
          nb::arg("dtype") = nb::none(), nb::arg("copy") = nb::none());
  bind_dlpack(tensor);
  tensor.attr("__array_priority__") = 1000;
  m.def(
      "tensor",
      [](nb::handle data, std::optional<DType> dtype, std::optional<Device> device, bool requires_grad) {
        Tensor made = to_tensor(data, dtype);
        if (nb::isinstance<Tensor>(data)) made = dense_copy(made.detach());
        if (device) made = to(made, *device);
        if (requires_grad) made.set_requires_grad();
        return made;
      },
      nb::arg("data"), nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(), nb::arg("requires_grad") = false,
      "A new tensor with a copy of the data: numbers, nested lists, arrays, tensors.");
  m.def(
      "asarray", [](nb::handle data, std::optional<DType> dtype) { return to_tensor(data, dtype, true); },
      nb::arg("data"), nb::arg("dtype") = nb::none(), "A tensor of the data, in the same memory where that can be.");
  m.def(
      "from_numpy", [](nb::handle array) { return array_tensor(array, Sharing::where_can); }, nb::arg("array"),
      "A tensor that shares the array's memory.");
  m.def("from_dlpack", &from_dlpack, nb::arg("array"), nb::kw_only(), nb::arg("device") = nb::none(),
        nb::arg("copy") = nb::none(),
        "A tensor that shares the memory of another library's tensor, on the CPU or a GPU. device: where it shall be; "
        "copy: True, or "
        "False, which refuses what cannot be shared.");
}

}  // namespace starling::python
