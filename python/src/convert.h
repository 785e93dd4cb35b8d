#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <vector>

#include "starling/ops/def/attrs.h"
#include "starling/tensor/tensor.h"
#include "tensor_object.h"

// Conversion from Python's values to the library's, in one place: every function of tensors accepts the same things.
namespace starling::python {

namespace nb = nanobind;

// A dtype: sl.f32, "f32", "float32", numpy.float32, float. None if it is nothing of the kind.
std::optional<DType> dtype_from(nb::handle given);
// A device: sl.Device, "cpu", "cuda:0".
std::optional<Device> device_from(nb::handle given);
// Sizes: an int or a sequence of ints. None if it is nothing of the kind.
std::optional<Shape> shape_from(nb::handle given);

double scalar_value(nb::handle given);

[[noreturn]] void refuse_type(const char* expected, nb::handle given);  // TypeError: "[who] expected …, got int"

// A tensor from a tensor, number, array (NumPy, DLPack, buffer) or nested lists of numbers. An array's memory is copied
// unless `share`. Throws nb::type_error naming what was given.
Tensor to_tensor(nb::handle given, std::optional<DType> dtype = std::nullopt, bool share = false);
// A number beside a tensor takes its dtype, and an integer that it does not have is an OverflowError; a float beside
// integers is f32. `compared`: such an integer is compared as it is.
Tensor to_tensor_beside(nb::handle given, const Tensor& other, bool compared = false);
// A tensor of one number, NumPy's scalars included; OverflowError where the dtype does not have it.
Tensor tensor_of_one(const Shape& shape, nb::handle value, DType dtype);
bool convertible(nb::handle given);  // whether to_tensor() has a chance

// Any iterable of tensors.
std::vector<Tensor> to_tensors(nb::handle given);
// Tensors whose gradient is asked for: floats, since a gradient by an integer would silently be nothing.
void expect_floats(const std::vector<Tensor>& tensors, const char* who);
nb::object to_python(const TensorList& tensors);  // the tensor itself if it is one, else a tuple

// Sets a field of an op's attributes from Python; `who` is for errors.
void set_attr(Attrs& attrs, const AttrField& field, nb::handle value, const std::string& who);
nb::object attr_value(const Attrs& attrs, const AttrField& field);

// Sets attributes by keyword; unknown ones are refused with the nearest name.
void set_attrs(Attrs& attrs, nb::kwargs keywords, const std::string& who);
template <class T>
T attrs_from(nb::kwargs keywords, const char* who) {
  if (PyDict_GET_SIZE(keywords.ptr()) == 0) return {};
  Attrs attrs{T{}};
  set_attrs(attrs, keywords, who);
  return attrs.as<T>();
}

// An object of a bound class, or a TypeError that says what was expected.
template <class T>
T& expect_instance(nb::handle given, const char* expected) {
  if (!nb::isinstance<std::remove_const_t<T>>(given)) refuse_type(expected, given);
  return nb::cast<T&>(given);
}
std::string expect_text(nb::handle given, const char* expected);

// JSON text of a Python value, by its own json module.
std::string json_text(nb::handle value);
nb::object from_json_text(const std::string& text);

}  // namespace starling::python

namespace nanobind::detail {

// Function argument that takes whatever to_tensor() takes; None is an empty handle.
struct TensorArgument {
  starling::Tensor tensor;
};

template <>
struct type_caster<starling::Shape> {
  NB_TYPE_CASTER(starling::Shape, const_name("int | Sequence[int]"))
  bool from_python(handle source, uint32_t, cleanup_list*) noexcept {
    try {
      auto shape = starling::python::shape_from(source);
      if (!shape) return false;
      value = *shape;
      return true;
    } catch (...) {
      return false;
    }
  }
  static handle from_cpp(const starling::Shape& shape, rv_policy, cleanup_list*) noexcept {
    object tuple = steal(PyTuple_New(shape.rank()));
    for (int i = 0; i < shape.rank(); ++i) PyTuple_SET_ITEM(tuple.ptr(), i, PyLong_FromLongLong(shape[i]));
    return tuple.release();
  }
};

template <>
struct type_caster<starling::DType> {
  NB_TYPE_CASTER(starling::DType, const_name("DTypeLike"))
  bool from_python(handle source, uint32_t, cleanup_list*) noexcept {
    try {
      const auto dtype = starling::python::dtype_from(source);
      if (!dtype) return false;
      value = *dtype;
      return true;
    } catch (...) {
      return false;
    }
  }
  static handle from_cpp(starling::DType dtype, rv_policy, cleanup_list*) noexcept;
};

template <>
struct type_caster<starling::Device> {
  NB_TYPE_CASTER(starling::Device, const_name("DeviceLike"))
  bool from_python(handle source, uint32_t, cleanup_list*) noexcept {
    try {
      const auto device = starling::python::device_from(source);
      if (!device) return false;
      value = *device;
      return true;
    } catch (...) {
      return false;
    }
  }
  static handle from_cpp(starling::Device device, rv_policy, cleanup_list*) noexcept;
};

template <>
struct type_caster<TensorArgument> {
  NB_TYPE_CASTER(TensorArgument, const_name("TensorLike"))
  bool from_python(handle source, uint32_t, cleanup_list*) noexcept {
    if (!starling::python::convertible(source)) return false;
    try {
      value.tensor = starling::python::to_tensor(source);
      return true;
    } catch (...) {
      return false;
    }
  }
  static handle from_cpp(const TensorArgument&, rv_policy, cleanup_list*) noexcept { return handle(); }
};

}  // namespace nanobind::detail

namespace starling::python {
using Arg = nanobind::detail::TensorArgument;
}
