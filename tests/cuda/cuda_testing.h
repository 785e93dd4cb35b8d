#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "starling/kernels/kernel_table.h"
#include "starling/tensor/bytes.h"
#include "starling/tensor/device_memory.h"
#include "starling/tensor/tensor.h"

namespace starling::testing {

inline constexpr Device kGpu{DeviceKind::cuda, 0};

// Fixture of tests that run kernels: skipped without a GPU.
class OnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  }
};

// Random values for one operand of a sample call, on the host; floats are f32.
inline Tensor drawn(const CaseInput& input, std::mt19937& engine) {
  std::uniform_real_distribution<double> uniform(input.low, input.high);
  std::vector<double> values(static_cast<std::size_t>(input.shape.numel()));
  for (auto& value : values) value = is_float(input.dtype) ? uniform(engine) : std::floor(uniform(engine));
  return from_doubles(values, input.shape, is_float(input.dtype) ? DType::f32 : input.dtype);
}

// ‖got - want‖ / ‖want‖, infinite if only one of them is NaN.
inline double relative_error(const std::vector<double>& got, const std::vector<double>& want) {
  if (got.size() != want.size()) return INFINITY;
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(got[i]) != std::isnan(want[i])) return INFINITY;
    if (std::isnan(want[i]) || got[i] == want[i]) continue;  // infinities have no difference
    difference += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  return std::sqrt(difference) / std::max(std::sqrt(norm), 1e-6);
}

// Device memory full of NaN, so that an element a kernel leaves out shows.
inline Tensor poisoned(const TensorType& type) {
  Tensor out = empty(type.shape, type.dtype, kGpu);
  const auto bytes = bytes_of(type);
  const std::vector<unsigned char> poison(bytes, 0xff);
  cuda_memory().from_host(out.raw(), poison.data(), bytes);
  return out;
}

}  // namespace starling::testing
