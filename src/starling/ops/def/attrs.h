#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "starling/base/error.h"
#include "starling/ops/def/reduce_op.h"
#include "starling/ops/def/symbol.h"
#include "starling/tensor/dtype.h"
#include "starling/tensor/shape.h"

namespace starling {

// Attributes of an op: a plain struct whose fields can be listed:
//   struct SumAttrs {
//     Shape axes;
//     bool keepdim = false;
//     static AttrFields fields() { return {field("axes", &SumAttrs::axes), field("keepdim", &SumAttrs::keepdim)}; }
//   };
// Printing, parsing, comparing, hashing, documentation and bindings follow from the list; code uses the struct.
enum class AttrKind : std::uint8_t { integer, real, boolean, dtype, ints, pair, symbol, reduction };

using Pair = std::array<std::int64_t, 2>;

struct AttrField {
  std::string_view name;
  AttrKind kind;
  std::size_t offset;
};
using AttrFields = std::vector<AttrField>;

template <class T>
constexpr AttrKind attr_kind() {
  if constexpr (std::is_same_v<T, bool>)
    return AttrKind::boolean;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return AttrKind::integer;
  else if constexpr (std::is_same_v<T, double>)
    return AttrKind::real;
  else if constexpr (std::is_same_v<T, DType>)
    return AttrKind::dtype;
  else if constexpr (std::is_same_v<T, Shape>)
    return AttrKind::ints;
  else if constexpr (std::is_same_v<T, Pair>)
    return AttrKind::pair;
  else if constexpr (std::is_same_v<T, Symbol>)
    return AttrKind::symbol;
  else if constexpr (std::is_same_v<T, ReduceOp>)
    return AttrKind::reduction;
}

template <class S, class T>
AttrField field(std::string_view name, T S::*member) {
  const S sample{};
  const auto* base = reinterpret_cast<const std::byte*>(&sample);
  const auto* at = reinterpret_cast<const std::byte*>(&(sample.*member));
  return {name, attr_kind<T>(), static_cast<std::size_t>(at - base)};
}

// Reflection of an attribute struct. `defaults` holds the bytes of a default-constructed one.
struct AttrType {
  std::size_t size = 0;
  AttrFields fields;
  std::vector<std::byte> defaults;
};

template <class T>
const AttrType& attr_type() {
  static_assert(std::is_trivially_copyable_v<T>, "attributes are copied as bytes");
  static const AttrType kType = [] {
    AttrType t{sizeof(T), T::fields(), std::vector<std::byte>(sizeof(T))};
    const T defaults{};
    std::memcpy(t.defaults.data(), &defaults, sizeof(T));
    return t;
  }();
  return kType;
}

namespace op {

struct NoAttrs {
  static AttrFields fields() { return {}; }
};

}  // namespace op

// Type-erased attribute struct of any op, stored inline.
class Attrs {
 public:
  static constexpr std::size_t kCapacity = 384;  // five lists of sizes

  Attrs() : Attrs(op::NoAttrs{}) {}
  // Implicit conversion: `apply(op, {x}, SumAttrs{…})`.
  template <class T>
    requires(!std::is_same_v<T, Attrs>)
  Attrs(const T& value) : type_(&attr_type<T>()) {  // NOLINT(google-explicit-constructor)
    static_assert(sizeof(T) <= kCapacity);
    std::memcpy(data_, &value, sizeof(T));
  }
  Attrs(const Attrs& other) : type_(other.type_) { std::memcpy(data_, other.data_, type_->size); }
  Attrs& operator=(const Attrs& other) {
    if (this == &other) return *this;
    type_ = other.type_;
    std::memcpy(data_, other.data_, type_->size);
    return *this;
  }
  static Attrs defaults(const AttrType& type);

  template <class T>
  const T& as() const {
    check(type_ == &attr_type<T>(), "[attrs] expected the attributes of another op (this one has {} fields)",
          type_->fields.size());
    return *reinterpret_cast<const T*>(data_);
  }

  const AttrType& type() const { return *type_; }
  const AttrField* find(std::string_view field) const;
  template <class T>
  T& get(const AttrField& field) {
    return *reinterpret_cast<T*>(data_ + field.offset);
  }
  template <class T>
  const T& get(const AttrField& field) const {
    return *reinterpret_cast<const T*>(data_ + field.offset);
  }

  // print(): `axes=[0, 1], keepdim=true`, the fields that differ from their default. set() parses one such value.
  std::string print() const;
  std::string print(const AttrField& field) const;
  void set(std::string_view field, std::string_view text);

  std::size_t hash() const;
  friend bool operator==(const Attrs& a, const Attrs& b);

 private:
  const AttrType* type_;
  alignas(8) std::byte data_[kCapacity];
};

}  // namespace starling
