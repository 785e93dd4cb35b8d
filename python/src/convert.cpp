#include "convert.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <cmath>

#include "array.h"
#include "starling/base/config/nearest.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/def/argument_error.h"
#include "types.h"

namespace starling::python {
namespace {

struct NamedDType {
  const char* name;
  DType dtype;
};
// Names that NumPy, PyTorch and JAX have for them, beside ours.
constexpr NamedDType kOtherNames[] = {{"float64", DType::f64},   {"double", DType::f64},  {"float32", DType::f32},
                                      {"float", DType::f32},     {"float16", DType::f16}, {"half", DType::f16},
                                      {"bfloat16", DType::bf16}, {"int64", DType::i64},   {"long", DType::i64},
                                      {"int32", DType::i32},     {"int", DType::i64},     {"int16", DType::i16},
                                      {"int8", DType::i8},       {"uint64", DType::u64},  {"uint32", DType::u32},
                                      {"uint16", DType::u16},    {"uint8", DType::u8},    {"bool_", DType::boolean}};

std::optional<DType> named_dtype(std::string_view name) {
  if (name.starts_with("torch.")) name.remove_prefix(6);
  if (const auto own = parse_dtype(name)) return own;
  for (const auto& other : kOtherNames) {
    if (name == other.name) return other.dtype;
  }
  return std::nullopt;
}

std::string name_of_type(nb::handle given) { return nb::cast<std::string>(nb::str(given.type().attr("__name__"))); }

bool is_number(nb::handle given) {
  return PyBool_Check(given.ptr()) || PyLong_Check(given.ptr()) || PyFloat_Check(given.ptr());
}

DType scalar_dtype(nb::handle given) {
  if (PyBool_Check(given.ptr())) return DType::boolean;
  return PyLong_Check(given.ptr()) ? DType::i64 : DType::f32;
}

// Whether an integer dtype has the value.
bool fits(long long value, DType dtype) {
  const int bits = 8 * static_cast<int>(size_of(dtype));
  if (dtype == DType::boolean) return value == 0 || value == 1;
  if (is_unsigned_integer(dtype)) return value >= 0 && (bits >= 63 || value < (1LL << bits));
  return bits >= 64 || (value >= -(1LL << (bits - 1)) && value < (1LL << (bits - 1)));
}

[[noreturn]] void refuse_range(nb::handle given, DType dtype) {
  const std::string text = fmt::format("[tensor] expected a number that {} has, got {}", name(dtype),
                                       nb::cast<std::string>(nb::repr(given)));
  PyErr_SetString(PyExc_OverflowError, text.c_str());
  throw nb::python_error();
}

long long whole_value(nb::handle given) {
  const long long value = PyLong_AsLongLong(given.ptr());
  if (value == -1 && PyErr_Occurred()) throw nb::python_error();
  return value;
}

// The number as Python's int, floats cut off. Infinities and what is no number are the errors that they are in Python.
nb::object whole_number(nb::handle given, DType dtype) {
  if (PyLong_Check(given.ptr())) return nb::borrow(given);
  const double value = scalar_value(given);
  if (std::isinf(value)) refuse_range(given, dtype);
  if (std::isnan(value))
    throw nb::value_error(fmt::format("[tensor] expected a number that {} has, got nan", name(dtype)).c_str());
  nb::object whole = nb::steal(PyNumber_Long(given.ptr()));
  if (!whole.is_valid()) throw nb::python_error();
  return whole;
}

// The bits of a number in an integer dtype of 64 bits, or those that become it; OverflowError where it has no such one.
std::int64_t bits_in(nb::handle given, DType dtype) {
  const nb::object whole = whole_number(given, dtype);
  if (dtype == DType::u64) {
    const unsigned long long value = PyLong_AsUnsignedLongLong(whole.ptr());
    if (value == ~0ULL && PyErr_Occurred()) {
      PyErr_Clear();
      refuse_range(given, dtype);
    }
    return static_cast<std::int64_t>(value);
  }
  int beyond = 0;
  const long long value = PyLong_AsLongLongAndOverflow(whole.ptr(), &beyond);
  if (beyond != 0 || !fits(value, dtype)) refuse_range(given, dtype);
  return value;
}

Tensor integers(const std::vector<std::int64_t>& bits, const Shape& shape, DType dtype) {
  if (dtype != DType::u64) {
    const Tensor wide = from_host<std::int64_t>(bits, shape);
    return dtype == DType::i64 ? wide : cast(wide, dtype);
  }
  const std::vector<std::uint64_t> values(bits.begin(), bits.end());
  return from_host<std::uint64_t>(values, shape);
}

constexpr double kExact = 9007199254740992.0;  // up to here every integer is a double

Tensor number_tensor(nb::handle given, DType dtype, const Shape& shape = {}) {
  if (!is_integer(dtype)) return full(shape, scalar_value(given), dtype);
  const std::int64_t bits = bits_in(given, dtype);
  const bool exact = bits >= 0 && static_cast<double>(bits) < kExact;
  if (exact || (bits < 0 && dtype != DType::u64 && static_cast<double>(bits) > -kExact))
    return full(shape, static_cast<double>(bits), dtype);
  return integers(std::vector<std::int64_t>(static_cast<std::size_t>(shape.numel()), bits), shape, dtype);
}

// Nested lists: sizes and leaves, row by row.
void flatten(nb::handle given, int depth, Shape& shape, std::vector<nb::object>& leaves) {
  if (!nb::isinstance<nb::list>(given) && !nb::isinstance<nb::tuple>(given)) {
    if (depth != shape.rank()) throw nb::value_error("[tensor] expected lists of one length in each dimension");
    if (!is_number(given))
      throw nb::type_error(fmt::format("[tensor] expected numbers in the lists, got {}", name_of_type(given)).c_str());
    leaves.push_back(nb::borrow(given));
    return;
  }
  const auto size = static_cast<std::int64_t>(nb::len(given));
  if (depth == shape.rank() && leaves.empty()) {
    if (depth == kMaxRank) throw nb::value_error("[tensor] expected at most 8 dimensions");
    shape.push_back(size);
  } else if (depth >= shape.rank() || shape[depth] != size) {
    throw nb::value_error("[tensor] expected lists of one length in each dimension");
  }
  for (nb::handle item : given) flatten(item, depth + 1, shape, leaves);
}

Tensor list_tensor(nb::handle given, std::optional<DType> wanted) {
  Shape shape;
  std::vector<nb::object> leaves;
  flatten(given, 0, shape, leaves);
  DType dtype = leaves.empty() ? DType::f32 : DType::boolean;
  for (const auto& leaf : leaves) {
    const DType own = scalar_dtype(leaf);
    dtype = dtype == DType::f32 || own == DType::f32 ? DType::f32 : promote(dtype, own);
    if (own == DType::i64 && dtype == DType::boolean) dtype = DType::i64;
  }
  if (wanted) dtype = *wanted;
  if (is_integer(dtype)) {
    std::vector<std::int64_t> bits;
    for (const auto& leaf : leaves) bits.push_back(bits_in(leaf, dtype));
    return integers(bits, shape, dtype);
  }
  std::vector<double> values;
  for (const auto& leaf : leaves) values.push_back(scalar_value(leaf));
  return from_doubles(values, shape, dtype);
}

std::int64_t as_int(nb::handle value) {
  const nb::object index = nb::steal(PyNumber_Index(value.ptr()));
  if (!index.is_valid()) throw nb::python_error();
  const long long number = PyLong_AsLongLong(index.ptr());
  if (number == -1 && PyErr_Occurred()) throw nb::python_error();
  return number;
}

}  // namespace

std::optional<DType> dtype_from(nb::handle given) {
  if (nb::isinstance<PyDType>(given)) return nb::cast<const PyDType&>(given).value;
  if (nb::isinstance<nb::str>(given)) return named_dtype(nb::cast<std::string>(given));
  if (given.ptr() == reinterpret_cast<PyObject*>(&PyFloat_Type)) return DType::f32;
  if (given.ptr() == reinterpret_cast<PyObject*>(&PyLong_Type)) return DType::i64;
  if (given.ptr() == reinterpret_cast<PyObject*>(&PyBool_Type)) return DType::boolean;
  if (is_number(given) || given.is_none()) return std::nullopt;
  if (nb::hasattr(given, "__name__"))
    return named_dtype(nb::cast<std::string>(nb::str(given.attr("__name__"))));  // numpy.float32
  if (nb::hasattr(given, "name"))
    return named_dtype(nb::cast<std::string>(nb::str(given.attr("name"))));  // numpy.dtype
  return named_dtype(nb::cast<std::string>(nb::str(given)));
}

std::optional<Device> device_from(nb::handle given) {
  if (nb::isinstance<PyDevice>(given)) return nb::cast<const PyDevice&>(given).value;
  if (!nb::isinstance<nb::str>(given)) return std::nullopt;
  const auto text = nb::cast<std::string>(given);
  const auto device = parse_device(text);
  check(device.has_value(), "[device] expected cpu, cpu:N, cuda, cuda:N or null, got '{}'", text);
  return device;
}

std::optional<Shape> shape_from(nb::handle given) {
  if (PyBool_Check(given.ptr())) return std::nullopt;
  if (PyIndex_Check(given.ptr())) {
    if (nb::isinstance<Tensor>(given)) return std::nullopt;
    return Shape{as_int(given)};
  }
  if (!nb::isinstance<nb::list>(given) && !nb::isinstance<nb::tuple>(given)) return std::nullopt;
  if (nb::len(given) > static_cast<std::size_t>(kMaxRank)) return std::nullopt;
  Shape shape;
  for (nb::handle item : given) {
    if (!PyIndex_Check(item.ptr()) || PyBool_Check(item.ptr())) return std::nullopt;
    shape.push_back(as_int(item));
  }
  return shape;
}

void refuse_type(const char* expected, nb::handle given) {
  throw nb::type_error(fmt::format("{}, got {}", expected, name_of_type(given)).c_str());
}

std::string expect_text(nb::handle given, const char* expected) {
  if (!nb::isinstance<nb::str>(given)) refuse_type(expected, given);
  return nb::cast<std::string>(given);
}

double scalar_value(nb::handle given) {
  const double value = PyFloat_AsDouble(given.ptr());
  if (value == -1 && PyErr_Occurred()) throw nb::python_error();
  return value;
}

bool convertible(nb::handle given) {
  return nb::isinstance<Tensor>(given) || is_number(given) || nb::isinstance<nb::list>(given) ||
         nb::isinstance<nb::tuple>(given) || PyObject_CheckBuffer(given.ptr()) || nb::hasattr(given, "__dlpack__") ||
         nb::hasattr(given, "__array__");
}

Tensor tensor_of_one(const Shape& shape, nb::handle value, DType dtype) {
  if (is_number(value)) return number_tensor(value, dtype, shape);
  // Scalars of NumPy and tensors of one element, as Python's numbers.
  const bool whole = is_integer(dtype) && PyIndex_Check(value.ptr());
  const nb::object number = nb::steal(whole ? PyNumber_Index(value.ptr()) : PyFloat_FromDouble(scalar_value(value)));
  if (!number.is_valid()) throw nb::python_error();
  return number_tensor(number, dtype, shape);
}

Tensor to_tensor(nb::handle given, std::optional<DType> dtype, bool share) {
  const auto typed = [&](Tensor tensor) { return dtype && tensor.dtype() != *dtype ? cast(tensor, *dtype) : tensor; };
  if (nb::isinstance<Tensor>(given)) return typed(nb::cast<Tensor>(given));
  if (is_number(given) && (dtype || !nb::hasattr(given, "dtype")))
    return number_tensor(given, dtype.value_or(scalar_dtype(given)));
  if (nb::isinstance<nb::list>(given) || nb::isinstance<nb::tuple>(given)) {
    if (holds_tensors(given)) return typed(stacked(given));
    return list_tensor(given, dtype);
  }
  if (convertible(given)) return typed(array_tensor(given, share ? Sharing::where_can : Sharing::no));
  throw nb::type_error(
      fmt::format("[tensor] expected a tensor, number, array or nested lists of numbers, got {}", name_of_type(given))
          .c_str());
}

Tensor to_tensor_beside(nb::handle given, const Tensor& other, bool compared) {
  const bool floats = is_float(other.dtype());
  if (!is_number(given) || nb::hasattr(given, "dtype")) {
    const bool list = nb::isinstance<nb::list>(given) || nb::isinstance<nb::tuple>(given);
    return floats && list && !holds_tensors(given) ? to_tensor(given, other.dtype()) : to_tensor(given);
  }
  const DType own = scalar_dtype(given);
  if (own == DType::f32) return number_tensor(given, floats ? other.dtype() : DType::f32);
  if (other.dtype() == DType::boolean) return number_tensor(given, own);
  if (compared && is_integer(other.dtype()) && other.dtype() != DType::u64 && !fits(whole_value(given), other.dtype()))
    return number_tensor(given, DType::i64);
  return number_tensor(given, other.dtype());
}

std::vector<Tensor> to_tensors(nb::handle given) {
  std::vector<Tensor> tensors;
  for (nb::handle item : given) tensors.push_back(item.is_none() ? Tensor() : to_tensor(item));
  return tensors;
}

void expect_floats(const std::vector<Tensor>& tensors, const char* who) {
  for (const Tensor& tensor : tensors) {
    if (tensor.defined() && !is_float(tensor.dtype()))
      throw nb::type_error(fmt::format("[{}] expected tensors of floats to take the gradient of or by, got {}: "
                                       "convert it first, x.to(\"f32\")",
                                       who, to_string(tensor.type()))
                               .c_str());
  }
}

nb::object to_python(const TensorList& tensors) {
  const auto one = [](const Tensor& tensor) { return tensor.defined() ? nb::cast(tensor) : nb::none(); };
  if (tensors.size() == 1) return one(tensors[0]);
  nb::list list;
  for (const auto& tensor : tensors) list.append(one(tensor));
  return nb::tuple(list);
}

void set_attr(Attrs& attrs, const AttrField& field, nb::handle value, const std::string& who) {
  const auto refusal = [&](const char* expected) {
    return fmt::format("[{}] expected {} for {}, got {}", who, expected, field.name,
                       nb::cast<std::string>(nb::repr(value)));
  };
  const auto refuse = [&](const char* expected) { throw nb::type_error(refusal(expected).c_str()); };
  const bool whole = PyIndex_Check(value.ptr()) && !PyBool_Check(value.ptr());
  switch (field.kind) {
    case AttrKind::integer:
      if (!whole) refuse("an int");
      attrs.get<std::int64_t>(field) = as_int(value);
      break;
    case AttrKind::real:
      if (!PyNumber_Check(value.ptr())) refuse("a number");
      attrs.get<double>(field) = scalar_value(value);
      break;
    case AttrKind::boolean:
      if (!PyBool_Check(value.ptr())) refuse("True or False");
      attrs.get<bool>(field) = value.ptr() == Py_True;
      break;
    case AttrKind::dtype: {
      const auto dtype = dtype_from(value);
      if (!dtype) refuse("a dtype");
      attrs.get<DType>(field) = *dtype;
      break;
    }
    case AttrKind::ints: {
      const auto shape = shape_from(value);
      if (!shape) refuse("an int or a sequence of ints");
      attrs.get<Shape>(field) = *shape;
      break;
    }
    case AttrKind::pair: {
      const auto shape = shape_from(value);
      if (!shape || shape->rank() < 1 || shape->rank() > 2) refuse("an int or two");
      attrs.get<Pair>(field) = {(*shape)[0], shape->back()};
      break;
    }
    case AttrKind::symbol:
      if (!nb::isinstance<nb::str>(value)) refuse("a string");
      attrs.get<Symbol>(field) = Symbol(nb::cast<std::string>(value));
      break;
    case AttrKind::reduction: {
      if (!nb::isinstance<nb::str>(value)) refuse("a string");
      const auto reduce = parse_reduce_op(nb::cast<std::string>(value));
      if (!reduce) throw ArgumentError(refusal("sum, mean, max, min or product"));
      attrs.get<ReduceOp>(field) = *reduce;
      break;
    }
  }
}

nb::object attr_value(const Attrs& attrs, const AttrField& field) {
  switch (field.kind) {
    case AttrKind::integer: return nb::cast(attrs.get<std::int64_t>(field));
    case AttrKind::real: return nb::cast(attrs.get<double>(field));
    case AttrKind::boolean: return nb::cast(attrs.get<bool>(field));
    case AttrKind::dtype: return nb::cast(attrs.get<DType>(field));
    case AttrKind::ints: return nb::cast(attrs.get<Shape>(field));
    case AttrKind::pair: return nb::make_tuple(attrs.get<Pair>(field)[0], attrs.get<Pair>(field)[1]);
    case AttrKind::symbol: return nb::cast(attrs.get<Symbol>(field).str());
    case AttrKind::reduction: return nb::cast(std::string(name(attrs.get<ReduceOp>(field))));
  }
  return nb::none();
}

void set_attrs(Attrs& attrs, nb::kwargs keywords, const std::string& who) {
  for (auto [key, value] : keywords) {
    std::string name = nb::cast<std::string>(key);
    const AttrField* field = attrs.find(name);
    // One word for all: the axes of a reduction may be given as axis, as NumPy has it, or dim, as PyTorch has it.
    if (!field && name == "axis") field = attrs.find("axes");
    if (!field && name == "dim") field = attrs.find(attrs.find("axis") ? "axis" : "axes");
    if (!field && name == "keepdims") field = attrs.find("keepdim");
    if (!field) {
      std::vector<std::string> names;
      for (const auto& each : attrs.type().fields) names.emplace_back(each.name);
      const std::string near = nearest(name, names);
      throw nb::type_error(fmt::format("[{}] expected keywords out of ({}), got '{}'{}", who, fmt::join(names, ", "),
                                       name, near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near))
                               .c_str());
    }
    if (value.is_none()) continue;  // as given by default
    set_attr(attrs, *field, value, who);
  }
}

std::string json_text(nb::handle value) {
  return nb::cast<std::string>(nb::module_::import_("json").attr("dumps")(value));
}

nb::object from_json_text(const std::string& text) { return nb::module_::import_("json").attr("loads")(text); }

}  // namespace starling::python
