#include "starling/data/formats/hdf5/element_type.h"

#include <cstdlib>
#include <cstring>

#include "starling/base/error.h"

namespace starling::data {
namespace {

struct FloatParts {
  std::size_t sign = 0, exponent = 0, exponent_bits = 0, mantissa = 0, mantissa_bits = 0;
};

constexpr FloatParts kHalf{15, 10, 5, 0, 10};
constexpr FloatParts kBrain{15, 7, 8, 0, 7};

std::optional<DType> float_of(hid_t type) {
  if (H5Tget_size(type) == 8) return DType::f64;
  if (H5Tget_size(type) == 4) return DType::f32;
  FloatParts p;
  if (H5Tget_size(type) != 2 ||
      H5Tget_fields(type, &p.sign, &p.exponent, &p.exponent_bits, &p.mantissa, &p.mantissa_bits) < 0) {
    return std::nullopt;
  }
  if (p.exponent_bits == kHalf.exponent_bits && p.mantissa_bits == kHalf.mantissa_bits) return DType::f16;
  if (p.exponent_bits == kBrain.exponent_bits && p.mantissa_bits == kBrain.mantissa_bits) return DType::bf16;
  return std::nullopt;
}

std::optional<DType> integer_of(hid_t type) {
  const bool negative = H5Tget_sign(type) == H5T_SGN_2;
  switch (H5Tget_size(type)) {
    case 1: return negative ? DType::i8 : DType::u8;
    case 2: return negative ? DType::i16 : DType::u16;
    case 4: return negative ? DType::i32 : DType::u32;
    case 8: return negative ? DType::i64 : DType::u64;
    default: return std::nullopt;
  }
}

// h5py keeps bools as an enumeration of a byte: FALSE, TRUE.
bool is_bool(hid_t type) {
  if (H5Tget_size(type) != 1 || H5Tget_nmembers(type) != 2) return false;
  for (unsigned i = 0; i < 2; ++i) {
    char* name = H5Tget_member_name(type, i);
    std::int8_t value = -1;
    const bool fits = name != nullptr && H5Tget_member_value(type, i, &value) >= 0 && (value == 0 || value == 1) &&
                      std::strcmp(name, value == 1 ? "TRUE" : "FALSE") == 0;
    H5free_memory(name);
    if (!fits) return false;
  }
  return true;
}

// Half precision in memory, which the library has no name for.
Hdf5Id short_float(const FloatParts& p, std::size_t bias) {
  Hdf5Id type(H5Tcopy(H5T_NATIVE_FLOAT), H5Tclose);
  check(type.valid() &&
            H5Tset_fields(type.get(), p.sign, p.exponent, p.exponent_bits, p.mantissa, p.mantissa_bits) >= 0 &&
            H5Tset_size(type.get(), 2) >= 0 && H5Tset_ebias(type.get(), bias) >= 0,
        "[hdf5] expected to make a type of 16 bits, got: {}", Hdf5Library::last_error());
  return type;
}

hid_t native_type(DType dtype) {
  switch (dtype) {
    case DType::f64: return H5T_NATIVE_DOUBLE;
    case DType::f32: return H5T_NATIVE_FLOAT;
    case DType::i64: return H5T_NATIVE_INT64;
    case DType::i32: return H5T_NATIVE_INT32;
    case DType::i16: return H5T_NATIVE_INT16;
    case DType::i8: return H5T_NATIVE_INT8;
    case DType::u64: return H5T_NATIVE_UINT64;
    case DType::u32: return H5T_NATIVE_UINT32;
    case DType::u16: return H5T_NATIVE_UINT16;
    default: return H5T_NATIVE_UINT8;
  }
}

}  // namespace

std::optional<DType> dtype_of_hdf5(hid_t type) {
  switch (H5Tget_class(type)) {
    case H5T_FLOAT: return float_of(type);
    case H5T_INTEGER: return integer_of(type);
    case H5T_ENUM: return is_bool(type) ? std::optional(DType::boolean) : std::nullopt;
    default: return std::nullopt;
  }
}

Hdf5Id memory_type(DType dtype, hid_t file_type) {
  if (dtype == DType::f16) return short_float(kHalf, 15);
  if (dtype == DType::bf16) return short_float(kBrain, 127);
  if (dtype == DType::boolean) return {H5Tget_native_type(file_type, H5T_DIR_ASCEND), H5Tclose};
  return {H5Tcopy(native_type(dtype)), H5Tclose};
}

std::string describe_hdf5(hid_t type) {
  switch (H5Tget_class(type)) {
    case H5T_STRING: return "text";
    case H5T_COMPOUND: return "compound";
    case H5T_ENUM: return "enumeration";
    case H5T_VLEN: return "lists";
    case H5T_ARRAY: return "arrays";
    case H5T_REFERENCE: return "references";
    case H5T_FLOAT: return "floats of " + std::to_string(8 * H5Tget_size(type)) + " bits";
    case H5T_INTEGER: return "integers of " + std::to_string(8 * H5Tget_size(type)) + " bits";
    default: return "other data";
  }
}

}  // namespace starling::data
