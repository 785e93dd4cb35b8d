#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "starling/kernels/kernel_table.h"
#include "starling/ops/def/registry.h"
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

// Ops that tests over all ops go through: those of a GPU, or those named in STARLING_OPS, separated by commas.
inline std::vector<const OpDef*> ops_on_gpu() {
  const char* wanted = std::getenv("STARLING_OPS");
  std::vector<const OpDef*> found;
  for (const auto* op : op_registry().sorted()) {
    if (!op->cases || kernels::kernel_table().find(*op, DeviceKind::cuda).empty()) continue;
    if (!wanted || ("," + std::string(wanted) + ",").find("," + op->name + ",") != std::string::npos)
      found.push_back(op);
  }
  return found;
}

// Attributes with f64 dtypes changed to f32, like the operands.
inline Attrs attrs_in_f32(const OpCase& sample) {
  Attrs attrs = sample.attrs;
  for (const auto& field : attrs.type().fields) {
    if (field.kind != AttrKind::dtype) continue;
    if (attrs.get<DType>(field) == DType::f64) attrs.get<DType>(field) = DType::f32;
  }
  return attrs;
}

// Adds CaseInput::diagonal to every matrix, or along a vector, whose values then ascend.
inline void add_diagonal(std::vector<double>& values, const CaseInput& input) {
  const bool vector = input.shape.rank() == 1;
  const auto columns = vector ? std::size_t{1} : static_cast<std::size_t>(input.shape.back());
  const auto rows = static_cast<std::size_t>(input.shape[input.shape.rank() - (vector ? 1 : 2)]);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t row = i / columns % rows;
    if (vector) values[i] += input.diagonal * static_cast<double>(i);
    if (!vector && row == i % columns) values[i] += input.diagonal * static_cast<double>(row + 1);
  }
}

// Random values for one operand of a sample call, on the host; floats of no fixed dtype are `floats`.
inline Tensor drawn(const CaseInput& input, std::mt19937& engine, DType floats = DType::f32) {
  std::uniform_real_distribution<double> uniform(input.low, input.high);
  std::vector<double> values(static_cast<std::size_t>(input.shape.numel()));
  for (auto& value : values) value = is_float(input.dtype) ? uniform(engine) : std::floor(uniform(engine));
  if (input.diagonal != 0 && !values.empty()) add_diagonal(values, input);
  if (input.ascending && !values.empty()) {
    std::sort(values.begin(), values.end());
    values[0] = input.low;
  }
  return from_doubles(values, input.shape, is_float(input.dtype) && input.dtype != DType::f32 ? floats : input.dtype);
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
