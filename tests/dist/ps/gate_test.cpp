#include "starling/dist/ps/gate.h"

#include <gtest/gtest.h>

#include "starling/base/error.h"

namespace starling::dist::ps {
namespace {

// Pushes as "worker@clock", steps in brackets.
std::string told(const std::vector<Step>& steps) {
  std::string text;
  for (const auto& step : steps) {
    text += "[";
    for (const auto& push : step) text += std::to_string(push.worker) + "@" + std::to_string(push.clock);
    text += "]";
  }
  return text;
}

std::string push(Gate& gate, int worker, std::int64_t clock) {
  return told(gate.push({.worker = worker, .clock = clock}));
}

TEST(PsGate, WithoutABoundNothingWaits) {
  Gate gate({.workers = 2});
  for (int c = 0; c < 1000; ++c) {
    EXPECT_TRUE(gate.may_read(c));
    EXPECT_EQ(told(gate.push({.worker = 0, .clock = c})), "[0@" + std::to_string(c) + "]");
  }
  EXPECT_EQ(gate.held(), 0U);
}

TEST(PsGate, OfBoundZeroMakesClocksInTheOrderOfWorkers) {
  Gate gate({.workers = 3, .bound = 0});
  EXPECT_EQ(push(gate, 2, 0), "");
  EXPECT_EQ(push(gate, 0, 0), "");
  EXPECT_TRUE(gate.may_read(0));
  EXPECT_FALSE(gate.may_read(1));
  EXPECT_EQ(push(gate, 1, 0), "[0@0][1@0][2@0]");
  EXPECT_TRUE(gate.may_read(1));
}

TEST(PsGate, BoundsReadsAndNotPushes) {
  for (const std::int64_t s : {1, 2, 5}) {
    Gate gate({.workers = 2, .bound = s});
    for (std::int64_t c = 0; c <= s; ++c) {
      EXPECT_TRUE(gate.may_read(c)) << c << " of " << s;
      push(gate, 0, c);
    }
    EXPECT_FALSE(gate.may_read(s + 1));
    push(gate, 0, s + 1);  // a push is taken nevertheless
    push(gate, 1, 0);
    EXPECT_TRUE(gate.may_read(s + 1));
    EXPECT_FALSE(gate.may_read(s + 2));
  }
}

// A push of a worker is in the weights that it reads next.
TEST(PsGate, ShowsOwnWritesInTheNextRead) {
  for (const std::int64_t s : {0, 1, 3}) {
    Gate gate({.workers = 2, .bound = s});
    std::size_t made = 0;
    for (std::int64_t c = 0; c < 6; ++c) {
      if (!gate.may_read(c)) made += gate.push({.worker = 1, .clock = c - s - 1}).size();
      ASSERT_TRUE(gate.may_read(c)) << c << " of " << s;
      EXPECT_GE(made, static_cast<std::size_t>(c)) << s;
      made += gate.push({.worker = 0, .clock = c}).size();
    }
  }
}

TEST(PsGate, ForgetsWhoRetiresAndCountsWhoComesBack) {
  Gate gate({.workers = 2, .bound = 0});
  EXPECT_EQ(push(gate, 0, 0), "");
  EXPECT_EQ(told(gate.retire(1)), "[0@0]");
  EXPECT_EQ(push(gate, 0, 1), "[0@1]");
  gate.join(1, 0);  // the others do not fall behind by it
  EXPECT_TRUE(gate.may_read(2));
  EXPECT_EQ(push(gate, 0, 2), "");
  EXPECT_EQ(push(gate, 1, 2), "[0@2][1@2]");
}

TEST(PsGate, OfMeansMakesOneStepOfAClock) {
  Gate gate({.workers = 3, .bound = 0, .merge = Merge::mean});
  EXPECT_EQ(push(gate, 1, 0), "");
  EXPECT_EQ(push(gate, 0, 0), "");
  EXPECT_EQ(push(gate, 0, 0), "");  // counts once
  EXPECT_EQ(push(gate, 2, 0), "[0@01@02@0]");
  EXPECT_TRUE(gate.may_read(1));
  EXPECT_EQ(told(gate.tick(1, 1)), "");  // had nothing
  EXPECT_EQ(push(gate, 0, 1), "");
  EXPECT_EQ(push(gate, 2, 1), "[0@12@1]");
}

TEST(PsGate, OfAQuorumDropsWhoComesLate) {
  Gate gate({.workers = 3, .bound = 0, .merge = Merge::mean, .quorum = 2});
  EXPECT_EQ(push(gate, 2, 0), "");
  EXPECT_EQ(push(gate, 0, 0), "[0@02@0]");
  EXPECT_EQ(push(gate, 1, 0), "");
  EXPECT_EQ(gate.late(), 1);
  EXPECT_EQ(push(gate, 1, 1), "");
  EXPECT_EQ(push(gate, 0, 1), "[0@11@1]");
}

TEST(PsGate, GoesOnAtTheClockOfACheckpoint) {
  Gate gate({.workers = 2, .bound = 0, .merge = Merge::mean});
  gate.join(0, 500);
  EXPECT_EQ(push(gate, 0, 500), "");
  EXPECT_EQ(told(gate.join(1, 500)), "");
  EXPECT_EQ(push(gate, 1, 500), "[0@5001@500]");
}

TEST(PsGate, RefusesOptionsThatDoNotFit) {
  EXPECT_THROW(Gate({.workers = 0}), Error);
  EXPECT_THROW(Gate({.workers = 2, .bound = -1}), Error);
  EXPECT_THROW(Gate({.workers = 2, .quorum = 3}), Error);
}

TEST(PsGate, KeepsACopyOfWhatWasLent) {
  Gate gate({.workers = 2, .bound = 0});
  float lent = 1;
  const Bytes bytes{std::shared_ptr<const void>(&lent, [](const void*) {}), reinterpret_cast<const std::byte*>(&lent),
                    4, true};
  gate.push({.worker = 0, .clock = 0, .values = bytes});
  lent = 2;  // the owner goes on
  const auto steps = gate.push({.worker = 1, .clock = 0, .values = bytes});
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(*reinterpret_cast<const float*>(steps[0][0].values.data), 1);
  EXPECT_EQ(steps[1][0].values.data, bytes.data);  // used at once: no copy
}

}  // namespace
}  // namespace starling::dist::ps
