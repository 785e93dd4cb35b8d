#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "starling/starling.h"

namespace starling::testing {

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

inline bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

inline Tensor one_value(double value, DType dtype = DType::f32) {
  return from_doubles(std::vector<double>{value}, {}, dtype);
}
inline Tensor values(const std::vector<double>& given, DType dtype = DType::f32) {
  const Shape shape{static_cast<std::int64_t>(given.size())};
  return from_doubles(given, shape, dtype);
}

inline std::shared_ptr<TensorQueue> make_queue(const std::string& name, std::size_t capacity,
                                               std::vector<TensorType> types = {{DType::f32, {}}}) {
  return std::make_shared<TensorQueue>(QueueOptions{.name = name, .capacity = capacity, .types = std::move(types)});
}

}  // namespace starling::testing
