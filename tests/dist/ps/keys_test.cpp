#include "starling/dist/ps/keys.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "starling/base/error.h"
#include "starling/tensor/bytes.h"

namespace starling::dist::ps {
namespace {

std::vector<ServedTensor> served(const std::vector<Shape>& shapes) {
  std::vector<ServedTensor> all;
  for (const auto& shape : shapes)
    all.push_back({.name = "t" + std::to_string(all.size()), .type = {DType::f32, shape}});
  return all;
}

// Nets whose bytes lie very differently: one huge layer, many equal ones, small ones only.
std::vector<std::vector<ServedTensor>> nets() {
  std::vector<Shape> deep;
  for (int i = 0; i < 60; ++i) {
    deep.push_back({64 << (i / 15), 64, 3, 3});
    deep.push_back({64 << (i / 15)});
  }
  return {served({{4096, 9216}, {4096}, {1000, 4096}, {1000}, {96, 3, 11, 11}}), served(deep),
          served({{784, 300}, {300}, {300, 10}, {10}}), served({{1000}, {999}, {998}, {17}})};
}

double ratio(const std::vector<double>& loads) {
  return *std::max_element(loads.begin(), loads.end()) / *std::min_element(loads.begin(), loads.end());
}

TEST(PsKeys, SpreadEveryNetEvenly) {
  for (const auto& net : nets()) {
    for (int servers = 1; servers <= 8; ++servers) {
      const KeyTable table(net, servers);
      std::vector<double> loads;
      for (int s = 0; s < servers; ++s) loads.push_back(static_cast<double>(table.bytes(s)));
      EXPECT_LE(ratio(loads), 1.1) << net.size() << " tensors on " << servers;
    }
  }
}

// The control: whole tensors by the hash of their names leave one server with most of the bytes.
TEST(PsKeys, ByHashOfWholeTensorsWouldBeUneven) {
  const auto net = nets()[0];
  std::vector<double> loads(2, 1);
  for (const auto& tensor : net)
    loads[std::hash<std::string>()(tensor.name) % 2] += static_cast<double>(bytes_of(tensor.type));
  EXPECT_GT(ratio(loads), 1.1);
}

TEST(PsKeys, CoverEveryElementOnce) {
  for (const auto& net : nets()) {
    const KeyTable table(net, 3);
    for (std::size_t t = 0; t < net.size(); ++t) {
      std::int64_t next = 0;
      for (const Key& key : table.keys_of(t)) {
        EXPECT_EQ(key.begin, next);
        EXPECT_EQ(key.tensor, t);
        next += key.size;
        EXPECT_EQ(table.type_of(key).shape.numel(), key.size);
      }
      EXPECT_EQ(next, net[t].type.shape.numel());
    }
  }
}

TEST(PsKeys, AreTheSameWhoeverMakesThem) {
  const KeyTable a(nets()[1], 4), b(nets()[1], 4);
  ASSERT_EQ(a.keys().size(), b.keys().size());
  for (std::size_t i = 0; i < a.keys().size(); ++i) EXPECT_EQ(a.keys()[i].server, b.keys()[i].server);
}

TEST(PsKeys, KeepRowsTogether) {
  auto net = served({{1001, 7}, {64, 64}});
  net[0].by_rows = true;
  const KeyTable table(net, 4);
  EXPECT_EQ(table.keys_of(0).size(), 4U);
  for (const Key& key : table.keys_of(0)) {
    EXPECT_EQ(key.begin % 7, 0);
    EXPECT_EQ(table.type_of(key).shape[1], 7);
  }
}

TEST(PsKeys, LeaveWholeWhatMustBeWhole) {
  auto net = served({{1000, 100}, {1000, 100}});
  net[0].whole = true;
  const KeyTable table(net, 2);
  EXPECT_EQ(table.keys_of(0).size(), 1U);
  EXPECT_EQ(table.type_of(table.keys_of(0)[0]), net[0].type);
}

TEST(PsKeys, RefuseMoreServersThanPieces) {
  EXPECT_THROW(KeyTable(served({{2}}), 3), Error);
  EXPECT_THROW(KeyTable(served({{2}}), 0), Error);
  EXPECT_THROW(KeyTable({}, 1), Error);
}

TEST(PsKeys, NameTheNearestTensor) {
  const KeyTable table({{.name = "fc.weight", .type = {DType::f32, {4}}}}, 1);
  EXPECT_EQ(table.find("fc.weight"), 0U);
  try {
    table.find("fc.wieght");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean 'fc.weight'"), std::string::npos);
  }
}

}  // namespace
}  // namespace starling::dist::ps
