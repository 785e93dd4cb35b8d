// Eager code on a device: what it makes beside its operands lies where they do. The device without memory stands for
// all but the CPU.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "starling/starling.h"

namespace starling::testing {
namespace {

const Device kThere{DeviceKind::null, 0};

Tensor there(const Shape& shape) { return empty(shape, DType::f32, kThere); }

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

Tensor weight(const Shape& shape) {
  Tensor w = there(shape);
  w.set_requires_grad();
  return w;
}

TEST(EagerDevice, NumbersComeToTheTensorsTheyMeet) {
  EXPECT_EQ(mul(scalar(2), there({3})).device(), kThere);
  EXPECT_EQ(mul(there({}), scalar(2)).device(), kThere);
  EXPECT_EQ(add(there({3}), 1.0).device(), kThere);
  EXPECT_EQ(where(greater(there({3}), scalar(0)), there({3}), scalar(0)).device(), kThere);
}

TEST(EagerDevice, TensorsAreTheUsersToMove) {
  EXPECT_EQ(error_of([] { add(there({3}), ones({3})); }),
            "[add] expected all operands on one device, got null:0 and cpu:0");
  EXPECT_EQ(error_of([] { add(ones({3}), there({3})); }),
            "[add] expected all operands on one device, got cpu:0 and null:0");
}

TEST(EagerDevice, GradientsLieWhereTheLossDoes) {
  const Tensor w = weight({4, 3});
  sum(square(tanh(w))).backward();
  EXPECT_EQ(w.grad().device(), kThere);
  const Tensor v = weight({4, 3});
  cross_entropy(v, empty({4}, DType::i64, kThere)).backward();
  EXPECT_EQ(v.grad().device(), kThere);
  const Tensor u = weight({4, 3});
  sum(max(u, {.axes = {1}})).backward();
  EXPECT_EQ(u.grad().device(), kThere);
  const Tensor unused = weight({2});
  const Tensor outputs[] = {sum(u)}, inputs[] = {u, unused};
  EXPECT_EQ(gradients(outputs, inputs)[1].device(), kThere);
}

TEST(EagerDevice, ValuesWithoutOperandsLieOnTheDeviceOfTheScope) {
  {
    const DeviceScope scope(kThere);
    EXPECT_EQ(ones({2}).device(), kThere);
  }
  EXPECT_EQ(ones({2}).device(), kCpu);
  const DeviceScope logical({DeviceKind::cpu, 1});
  EXPECT_EQ(ones({2}).device(), kCpu) << "logical CPUs are for programs";
}

}  // namespace
}  // namespace starling::testing
