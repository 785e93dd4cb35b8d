#include "starling/tensor/literal.h"

#include <algorithm>
#include <cmath>

namespace starling {
namespace {

template <class T>
T rounded(double value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return T::from_float(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

}  // namespace

DType TensorLiteral::dtype() const {
  if (kind_ == Kind::boolean) return DType::boolean;
  return kind_ == Kind::whole ? DType::i64 : DType::f32;
}

void TensorLiteral::append(const TensorLiteral& item) {
  if (shape_[0] == 0) {
    check(item.shape_.rank() < kMaxRank, "[tensor] expected at most {} nested lists, got more", kMaxRank);
    shape_ = {0};
    for (const auto size : item.shape_) shape_.push_back(size);
  }
  Shape row = shape_;
  row.erase(0);
  check(row == item.shape_, "[tensor] expected rows of one shape, got {} in place 0 and {} in place {}", to_string(row),
        to_string(item.shape_), shape_[0]);
  ++shape_[0];
  kind_ = std::max(kind_, item.kind_);
  numbers_.insert(numbers_.end(), item.numbers_.begin(), item.numbers_.end());
}

Tensor TensorLiteral::make(DType dtype) const {
  Tensor out = empty(shape_, dtype);
  dispatch(dtype, [&]<class T>() {
    T* to = out.data<T>();
    for (const Number& number : numbers_) {
      if constexpr (std::is_same_v<T, bool>) {
        check(number.real == 0 || number.real == 1,
              "[tensor] expected true, false, 0 or 1 for bool, got {}; write x != 0", number.real);
        *to++ = number.real != 0;
      } else if constexpr (std::is_integral_v<T>) {
        const bool real = kind_ == Kind::real;
        check(!real || (number.real == std::trunc(number.real) && std::abs(number.real) < 0x1p53),
              "[tensor] expected whole numbers for {}, got {}; give a float dtype, or none", name(dtype), number.real);
        const std::int64_t whole = real ? static_cast<std::int64_t>(number.real) : number.whole;
        check(std::in_range<T>(whole), "[tensor] expected numbers that {} can hold, got {}", name(dtype), whole);
        *to++ = static_cast<T>(whole);
      } else {
        *to++ = rounded<T>(number.real);
      }
    }
  });
  return out;
}

Tensor tensor(const TensorLiteral& values, std::optional<DType> dtype) {
  return values.make(dtype.value_or(values.dtype()));
}

}  // namespace starling
