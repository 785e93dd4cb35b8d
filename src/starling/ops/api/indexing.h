#pragma once

#include <concepts>
#include <cstdint>
#include <optional>

#include "starling/base/error.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/slice.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Selection of x[{…}] along one axis, axes in order:
//   x[{0, all, {2, 5}}]     row 0 of axis 0, which is dropped; all of axis 1; positions 2, 3 and 4 of axis 2
//   x[{{1, {}}}]            from position 1 on; {{}, -1} is all but the last, {{}, {}, -1} all of them backwards
// Axes that are not named are taken whole. Negative positions count from the end. A position outside its axis is
// refused, not clamped. The result is a view, is differentiable and can be traced.
class Index {
 public:
  using Position = std::optional<std::int64_t>;  // empty: the end that the step comes from or goes to

  template <std::integral T>
    requires(!std::same_as<T, bool>)
  Index(T position) : begin_(static_cast<std::int64_t>(position)) {  // NOLINT(google-explicit-constructor): x[{0, 1}]
    if constexpr (std::unsigned_integral<T>)
      check(begin_ >= 0, "[index] expected a position within i64, got {}", std::uint64_t{position});
  }
  Index(Position begin, Position end, std::int64_t step = 1)
      : range_(true), begin_(begin.value_or(kToEnd)), end_(end.value_or(kToEnd)), step_(step) {}
  // The whole axis, by the name of the reduction `all`, so that one name does not mean two things.
  Index(Tensor (*)(const Tensor&, const op::ReduceAttrs&)) : range_(true) {}  // NOLINT(google-explicit-constructor)

  bool range() const { return range_; }  // false: one position, whose axis is dropped
  std::int64_t position() const { return begin_; }
  op::SliceAttrs slice(std::int64_t axis) const { return {axis, begin_, end_, step_}; }

 private:
  bool range_ = false;
  std::int64_t begin_ = kToEnd;
  std::int64_t end_ = kToEnd;
  std::int64_t step_ = 1;
};

}  // namespace starling
