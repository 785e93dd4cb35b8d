#include "starling/dist/ps/shard.h"

#include <gtest/gtest.h>

#include "dist/ps/ps_testing.h"

namespace starling::dist::ps {
namespace {

const ServedTensor kTensor{.name = "w", .type = {DType::f32, {100}}};

TEST(PsShard, LeavesWeightsAloneThatSomebodyStillReads) {
  Shard shard(kTensor, kTensor.type, optimizer_named("sgd"));
  const Tensor first = values_like(kTensor.type, 1), gradient = values_like(kTensor.type, 2);
  shard.put(share(first));
  const Bytes held = shard.weights();
  shard.step({{.values = share(gradient)}});
  EXPECT_EQ(std::memcmp(held.data, first.raw(), 400), 0);
  EXPECT_NE(std::memcmp(shard.weights().data, first.raw(), 400), 0);
}

TEST(PsShard, MovesNothingWhenNobodyReads) {
  Shard shard(kTensor, kTensor.type, optimizer_named("sgd"));
  const Tensor first = values_like(kTensor.type, 1);
  shard.put(share(first));
  const std::byte* place = shard.weights().data;
  EXPECT_EQ(shard.weights().data, place);  // readers share one snapshot
  for (int i = 0; i < 3; ++i) shard.step({{.values = share(first)}});
  EXPECT_EQ(shard.weights().data, place);
  EXPECT_EQ(shard.version(), 4);
}

TEST(PsShard, ChecksWhatPeersSend) {
  const ServedTensor table{.name = "t", .type = {DType::f32, {10, 4}}};
  const Shard shard(table, table.type, {});
  const auto rows = [](std::vector<std::int64_t> numbers) {
    return share(from_host<std::int64_t>(numbers, {static_cast<std::int64_t>(numbers.size())}));
  };
  const auto values = [](std::int64_t n) { return share(zeros({n})); };
  EXPECT_TRUE(shard.accepts({}, values(40)).ok());
  EXPECT_FALSE(shard.accepts({}, values(39)).ok());
  EXPECT_TRUE(shard.accepts(rows({0, 9}), values(8)).ok());
  EXPECT_FALSE(shard.accepts(rows({0, 9}), values(9)).ok());
  EXPECT_FALSE(shard.accepts(rows({0, 10}), values(8)).ok());
  EXPECT_FALSE(shard.accepts(rows({-1}), values(4)).ok());
}

}  // namespace
}  // namespace starling::dist::ps
