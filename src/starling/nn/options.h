#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "starling/tensor/shape.h"

namespace starling {

// Job-file settings of the Options structs (base/config/settings.h). Only declared here: settings() is defined beside
// the layer kinds, so that programs that use layers need not include base/config/settings.h.
struct Setting;
using Settings = std::vector<Setting>;

namespace nn {

// One number per spatial axis, or a single one for all axes: 3 or {3, 5}. Empty means a default that depends on other
// options.
class Sizes {
 public:
  Sizes() = default;
  Sizes(std::int64_t all) : values_{all} {}                           // NOLINT(google-explicit-constructor)
  Sizes(std::initializer_list<std::int64_t> each) : values_(each) {}  // NOLINT(google-explicit-constructor)
  Sizes(const Shape& each) : values_(each) {}                         // NOLINT(google-explicit-constructor)
  operator std::int64_t() const { return one(); }                     // NOLINT(google-explicit-constructor)

  bool empty() const { return values_.empty(); }
  const Shape& values() const { return values_; }
  // One number per axis; throws, naming the layer and the option, unless there is one or as many as axes, all ≥ least.
  Shape over(int axes, const char* layer, const char* option, std::int64_t least) const;

 private:
  std::int64_t one() const;  // throws unless there is exactly one number
  Shape values_{};
};

}  // namespace nn
}  // namespace starling
