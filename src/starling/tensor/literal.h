#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <ranges>
#include <type_traits>
#include <utility>
#include <vector>

#include "starling/base/error.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Number as a program writes it; characters are none, so that a text is not taken for a list of numbers.
template <class T>
concept WrittenNumber = std::is_arithmetic_v<T> && !std::same_as<T, char>;

// Numbers as a program writes them: one number, or lists of lists of one shape, in braces or in containers:
//   2.5    {1, 2, 3}    {{1, 2}, {3, 4}}    std::vector<std::vector<float>>
class TensorLiteral {
 public:
  template <WrittenNumber T>
  TensorLiteral(T number) : kind_(kind_of<T>()) {  // NOLINT(google-explicit-constructor): {1, 2}
    Number made{static_cast<double>(number), 0};
    if constexpr (std::integral<T>) {
      if constexpr (!std::same_as<T, bool>)
        check(std::in_range<std::int64_t>(number), "[tensor] expected whole numbers within i64, got {}", number);
      made.whole = static_cast<std::int64_t>(number);
    }
    numbers_.push_back(made);
  }
  TensorLiteral(std::initializer_list<TensorLiteral> items) : shape_{0} {
    for (const TensorLiteral& item : items) append(item);
  }
  // NOLINTBEGIN(google-explicit-constructor): nested vectors
  template <std::ranges::input_range R>
    requires std::constructible_from<TensorLiteral, std::ranges::range_reference_t<const R>> TensorLiteral(
        const R& items)
        : shape_{0} {  // NOLINTEND(google-explicit-constructor)
      for (const auto& item : items) append(TensorLiteral(item));
    }

    const Shape& shape() const { return shape_; }
    // Narrowest of bool, i64 and f32 that was meant: f32 where a number has a point, and of no numbers.
    DType dtype() const;
    Tensor make(DType dtype) const;

   private:
    enum class Kind : std::uint8_t { none, boolean, whole, real };
    struct Number {
      double real = 0;
      std::int64_t whole = 0;  // the same, exact above 2^53; unused for Kind::real
    };
    template <class T>
    static constexpr Kind kind_of() {
      return std::same_as<T, bool> ? Kind::boolean : std::integral<T> ? Kind::whole : Kind::real;
    }
    void append(const TensorLiteral& item);

    Kind kind_ = Kind::none;
    Shape shape_{};
    std::vector<Number> numbers_;  // row-major
};

// Tensor of these numbers. Without a dtype, true and false make bool, whole numbers i64, and one with a point f32:
//   tensor({{1, 2}, {3, 4.5}})          f32[2, 2]
//   tensor({1, 2, 3}, DType::i32)       i32[3]
// Throws unless all rows have one shape and every number fits the dtype; floats are rounded.
Tensor tensor(const TensorLiteral& values, std::optional<DType> dtype = std::nullopt);

}  // namespace starling
