#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "starling/tensor/shape.h"

namespace starling {

// Options structs say what a job file may give (base/settings.h); the lists stand beside the layer kinds, so that
// programs that use layers need not read them.
struct Setting;
using Settings = std::vector<Setting>;

namespace nn {

// A number for each spatial axis, or one that stands for all of them: 3 or {3, 5}. Empty means a default that depends
// on other options.
class Sizes {
 public:
  Sizes() = default;
  Sizes(std::int64_t all) : values_{all} {}                           // NOLINT(google-explicit-constructor)
  Sizes(std::initializer_list<std::int64_t> each) : values_(each) {}  // NOLINT(google-explicit-constructor)
  Sizes(const Shape& each) : values_(each) {}                         // NOLINT(google-explicit-constructor)
  operator std::int64_t() const { return one(); }                     // NOLINT(google-explicit-constructor)

  bool empty() const { return values_.empty(); }
  const Shape& values() const { return values_; }
  // A number an axis; throws, naming the layer and the option, unless there is one or as many as axes, all ≥ least.
  Shape over(int axes, const char* layer, const char* option, std::int64_t least) const;

 private:
  std::int64_t one() const;  // throws when it is not one number
  Shape values_{};
};

}  // namespace nn
}  // namespace starling
