#include "array.h"

#include <fmt/format.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "bind.h"
#include "convert.h"
#include "dense.h"
#include "held.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/shape_ops.h"

namespace starling::python {
namespace {

using Code = nb::dlpack::dtype_code;

nb::dlpack::dtype dlpack_dtype(DType dtype) {
  const auto bits = static_cast<std::uint8_t>(8 * size_of(dtype));
  const Code code = dtype == DType::bf16       ? Code::Bfloat
                    : is_float(dtype)          ? Code::Float
                    : dtype == DType::boolean  ? Code::Bool
                    : is_signed_integer(dtype) ? Code::Int
                                               : Code::UInt;
  return {static_cast<std::uint8_t>(code), bits, 1};
}

DType dtype_of_array(nb::dlpack::dtype given) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (dlpack_dtype(static_cast<DType>(i)) == given) return static_cast<DType>(i);
  }
  throw nb::type_error("[tensor] expected an array of floats, integers or booleans (not complex, strings or objects)");
}

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

bool writable(nb::handle array) {
  if (!nb::hasattr(array, "flags")) return true;
  const nb::object flags = array.attr("flags");
  return !nb::hasattr(flags, "writeable") || nb::cast<bool>(flags.attr("writeable"));
}

Tensor shared_array(const Array& array, bool read_only) {
  Shape shape, strides;
  std::int64_t last = 0;
  for (std::size_t i = 0; i < array.ndim(); ++i) {
    shape.push_back(static_cast<std::int64_t>(array.shape(i)));
    strides.push_back(array.stride(i));
    if (shape.back() > 0) last += (shape.back() - 1) * strides.back();
  }
  const DType dtype = dtype_of_array(array.dtype());
  const std::size_t bytes = shape.numel() == 0 ? 0 : static_cast<std::size_t>(last + 1) * size_of(dtype);
  const Ref<Storage> storage = storage_of(array, const_cast<void*>(array.data()), bytes, read_only);
  const Tensor whole = from_storage(storage, dtype, Shape{static_cast<std::int64_t>(bytes / size_of(dtype))});
  return view_of(whole, shape, strides, 0);
}

}  // namespace

Tensor array_tensor(nb::handle given, bool share) {
  nb::object array = nb::borrow(given);
  // Anything that is no array yet but can be one; byte order and negative strides as NumPy undoes them.
  if (!nb::hasattr(array, "__dlpack__")) array = numpy().attr("asarray")(array);
  if (nb::hasattr(array, "ndim") && nb::cast<int>(array.attr("ndim")) > kMaxRank)
    throw nb::value_error("[tensor] expected at most 8 dimensions");
  Array view;
  if (nb::hasattr(array, "dtype") && nb::hasattr(array.attr("dtype"), "isnative") &&
      !nb::cast<bool>(array.attr("dtype").attr("isnative")))
    array = array.attr("astype")(array.attr("dtype").attr("newbyteorder")("="));
  if (!nb::try_cast(array, view))
    throw nb::type_error(fmt::format("[tensor] expected an array of numbers in memory, got {}",
                                     nb::cast<std::string>(nb::repr(array.type())))
                             .c_str());
  if (view.device_type() != nb::device::cpu::value)
    throw nb::type_error("[tensor] expected an array in the CPU's memory: copy it there first");
  if (!is_plain(view)) {
    array = numpy().attr("ascontiguousarray")(array);
    view = nb::cast<Array>(array);
    share = true;  // the copy belongs to no other array
  }
  const Tensor shared = shared_array(view, share && !writable(array));
  if (!share) return dense_copy(shared);
  const bool aligned = reinterpret_cast<std::uintptr_t>(view.data()) % size_of(shared.dtype()) == 0;
  return aligned ? shared : dense_copy(shared);
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

// The tensor's memory as an array; it holds the tensor.
template <class Framework>
nb::object array_of(const Tensor& tensor) {
  const Tensor detached = tensor.detach();
  std::vector<std::size_t> shape(detached.shape().begin(), detached.shape().end());
  std::vector<std::int64_t> strides(detached.strides().begin(), detached.strides().end());
  const bool gpu = tensor.device().kind == DeviceKind::cuda;
  const nb::object owner = nb::cast(detached);
  const auto make = [&](auto array) { return nb::cast(array, nb::rv_policy::reference); };
  const int type = gpu ? nb::device::cuda::value : nb::device::cpu::value;
  void* data = detached.raw();
  if (detached.impl()->storage->read_only())
    return make(nb::ndarray<Framework, nb::ro>(data, shape.size(), shape.data(), owner, strides.data(),
                                               dlpack_dtype(tensor.dtype()), type, tensor.device().index));
  return make(nb::ndarray<Framework>(data, shape.size(), shape.data(), owner, strides.data(),
                                     dlpack_dtype(tensor.dtype()), type, tensor.device().index));
}

nb::object numpy_of(const Tensor& tensor) {
  if (tensor.dtype() == DType::bf16)
    throw nb::type_error("[numpy] expected a dtype that NumPy has, got bf16: convert it first, x.to(\"f32\")");
  return array_of<nb::numpy>(tensor.device().kind == DeviceKind::cpu ? tensor : to(tensor, kCpu));
}

nb::object dlpack_of(const Tensor& tensor, nb::kwargs keywords) {
  check(!tensor.requires_grad(), "[dlpack] expected a tensor without gradient, got one that requires it: x.detach()");
  nb::dict rest;
  bool copy = false;
  for (auto [key, value] : keywords) {
    if (nb::cast<std::string>(key) == "copy")
      copy = value.ptr() == Py_True;
    else
      rest[key] = value;
  }
  return array_of<nb::array_api>(copy ? dense_copy(tensor) : tensor).attr("__dlpack__")(**rest);
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
          nb::arg("dtype") = nb::none(), nb::arg("copy") = nb::none())
      .def("__dlpack__", &dlpack_of, nb::arg("keywords"))
      .def("__dlpack_device__", [](const Tensor& self) {
        return nb::make_tuple(self.device().kind == DeviceKind::cuda ? 2 : 1, static_cast<int>(self.device().index));
      });
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
      "from_numpy", [](nb::handle array) { return array_tensor(array, true); }, nb::arg("array"),
      "A tensor that shares the array's memory.");
  m.def(
      "from_dlpack", [](nb::handle array) { return array_tensor(array, true); }, nb::arg("array"),
      "A tensor that shares the memory of another library's tensor.");
}

}  // namespace starling::python
