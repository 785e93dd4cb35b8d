#include "starling/tensor/tensor.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/state.h"
#include "starling/tensor/allocator.h"
#include "starling/tensor/without_memory.h"

namespace starling {
namespace {

Tensor numbers(const Shape& shape) {
  std::vector<double> values;
  for (int i = 0; i < shape.numel(); ++i) values.push_back(i);
  return from_doubles(values, shape);
}

TEST(Tensor, ViewsShareMemory) {
  const Tensor x = numbers({2, 3});
  const Tensor t = transpose(x);
  EXPECT_EQ(t.raw(), x.raw());
  EXPECT_FALSE(t.contiguous());
  EXPECT_EQ(t.to_vector(), (std::vector<double>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(slice(x, {.axis = 1, .begin = 1, .end = 3}).to_vector(), (std::vector<double>{1, 2, 4, 5}));
}

TEST(Tensor, PromotesMixedDtypes) {
  const Tensor i = from_doubles(std::vector<double>{1, 2}, {2}, DType::i32);
  const Tensor f = from_doubles(std::vector<double>{0.5, 0.5}, {2}, DType::f32);
  EXPECT_EQ((i + f).dtype(), DType::f32);
  EXPECT_EQ((i + f).to_vector(), (std::vector<double>{1.5, 2.5}));
  EXPECT_EQ(promote(DType::f16, DType::bf16), DType::f32);
  EXPECT_EQ(promote(DType::u8, DType::i64), DType::i64);
  EXPECT_EQ(promote(DType::boolean, DType::u8), DType::u8);
}

TEST(Tensor, EveryDtypeRoundTrips) {
  for (int d = 0; d < kDTypeCount; ++d) {
    const auto dtype = static_cast<DType>(d);
    const Tensor t = from_doubles(std::vector<double>{0, 1, 1}, {3}, dtype);
    EXPECT_EQ(t.to_vector(), (std::vector<double>{0, 1, 1})) << name(dtype);
    EXPECT_EQ(cast(t, DType::f64).to_vector(), (std::vector<double>{0, 1, 1})) << name(dtype);
    EXPECT_EQ(parse_dtype(name(dtype)), dtype);
  }
}

TEST(Tensor, MixedDevicesAreRefused) {
  const Tensor a = zeros({2}), b = zeros({2}, DType::f32, Device{DeviceKind::cpu, 1});
  EXPECT_THROW(add(a, b), Error);
}

TEST(Tensor, TheNullDeviceInfersShapesWithoutMemory) {
  const Device null{DeviceKind::null, 0};
  const Tensor x = empty({1 << 20, 1 << 20}, DType::f32, null);
  EXPECT_EQ(add(x, x).shape(), x.shape());
}

TEST(Tensor, AbsurdSizesAreRefused) {
  EXPECT_THROW(empty({std::int64_t{1} << 40, std::int64_t{1} << 40}), Error);
  EXPECT_THROW(empty({-1}), Error);
}

TEST(Tensor, OneWithoutMemoryIsRefusedByEveryOpByName) {
  Tensor pieces = without_memory({DType::f32, {2, 3}});
  pieces.set_name("fc.weight");
  const Tensor whole = numbers({2, 3});
  for (const auto& act : std::vector<std::function<void()>>{
           [&] { static_cast<void>(pieces + whole); }, [&] { static_cast<void>(whole * pieces); },
           [&] { static_cast<void>(transpose(pieces) + 1.0); }, [&] { static_cast<void>(cast(pieces, DType::f64)); },
           [&] { assign(pieces, whole); }, [&] { assign(whole, pieces); },
           [&] { static_cast<void>(pieces.to_vector()); }}) {
    try {
      act();
      ADD_FAILURE() << "expected an error";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("of which every rank stores a piece"), std::string::npos)
          << error.what();
    }
  }
  EXPECT_EQ((numbers({0, 3}) + 1.0).numel(), 0);  // no elements are no missing memory
}

TEST(Allocator, CountsAndReusesBlocks) {
  const Device device{DeviceKind::cpu, 7};
  Allocator& own = allocator(device);
  own.reset_peak();
  { const Tensor t = empty({1000}, DType::f32, device); }
  const auto once = own.stats();
  { const Tensor t = empty({1000}, DType::f32, device); }
  const auto twice = own.stats();
  EXPECT_EQ(once.live_bytes, 0);
  EXPECT_GE(once.peak_bytes, 4000);
  EXPECT_EQ(twice.allocations, once.allocations + 1);
  EXPECT_EQ(twice.system_allocations, once.system_allocations);
}

TEST(Allocator, LogicalDevicesKeepWithinTheirCap) {
  const Device device{DeviceKind::cpu, 9};
  allocator(device).set_cap(1 << 20);
  EXPECT_NO_THROW(empty({1000}, DType::f32, device));
  EXPECT_THROW(empty({1 << 20}, DType::f32, device), Error);
  allocator(device).set_cap(0);
}

TEST(Device, NamesParseBack) {
  for (const char* text : {"cpu:0", "cpu:3", "cuda:1", "null:0"}) EXPECT_EQ(to_string(*parse_device(text)), text);
  EXPECT_FALSE(parse_device("gpu"));
  EXPECT_FALSE(parse_device("cpu:x"));
}

}  // namespace
}  // namespace starling
