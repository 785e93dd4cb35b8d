// Communicators over Gloo with the ranks as threads of this process.
#include "starling/dist/comm/transport/gloo_comm.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "dist/comm_conformance.h"
#include "dist/comm_worlds.h"
#include "dist/gloo/gloo_worlds.h"

namespace starling::dist {
namespace {

using std::chrono::milliseconds;

class GlooComm : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Worlds, GlooComm, ::testing::Range(1, 10));

// Label: waits
TEST_P(GlooComm, DoesWhatEveryBackendMust) {
  run_ranks(make_gloo_comms(GetParam()), [](Comm& comm) { EXPECT_TRUE(conformance::run_conformance(comm)); });
}

TEST(GlooCommChecked, DoesWhatEveryBackendMust) {
  run_ranks(wrap(make_gloo_comms(3), make_checking),
            [](Comm& comm) { EXPECT_TRUE(conformance::run_conformance(comm)); });
}

TEST(GlooCommFailures, AnAbortReachesWaitingRanksWithItsReason) {
  const auto errors = errors_of(make_gloo_comms(3), [&](Comm& comm) {
    if (comm.rank() == 1) {
      std::this_thread::sleep_for(milliseconds(30));
      return comm.abort("out of paper");
    }
    comm.barrier().wait();
  });
  for (const std::size_t rank : {0u, 2u}) {
    EXPECT_TRUE(contains(errors[rank], "rank 1 of group 'world' aborted: out of paper"));
  }
}

TEST(GlooCommFailures, ARankThatLeavesIsNamedByThoseThatNeedIt) {
  Comms comms = make_gloo_comms(3);
  const CommTime start = CommClock::now();
  const auto errors = errors_of(comms, [&](Comm& comm) {
    comm.barrier().wait();
    if (comm.rank() == 0) return comms[0].reset();
    comm.barrier({.name = "the end", .deadline = milliseconds(120'000)}).wait();
  });
  EXPECT_LT(seconds_since(start), kAtOnce);
  for (const std::size_t rank : {1u, 2u}) EXPECT_TRUE(contains(errors[rank], "rank 0 has left the group 'world'"));
}

// Waits long enough for the others to poll every rank, including the one that left.
TEST(GlooCommFailures, ARankMayLeaveWhileOthersThatDoNotNeedItWait) {
  Comms comms = wrap(make_gloo_comms(3), make_checking);
  run_ranks(comms, [&](Comm& comm) {
    const auto part = comm.split(comm.rank() == 0 ? -1 : 0, 0);
    if (comm.rank() == 0) return comms[0].reset();
    Work message;
    float x = 0;
    if (comm.rank() == 1) message = comm.recv(&x, 1, DType::f32, 2);
    if (comm.rank() == 2) {
      std::this_thread::sleep_for(milliseconds(500));
      message = comm.send(&x, 1, DType::f32, 1);
    }
    message.wait();
    part->barrier().wait();
  });
}

TEST(GlooCommFailures, AHangIsNamedAtItsDeadline) {
  const Comms comms = make_gloo_comms(2);
  std::atomic<bool> over{false};
  const auto errors = errors_of(comms, [&](Comm& comm) {
    while (comm.rank() == 1 && !over) std::this_thread::sleep_for(milliseconds(1));
    if (comm.rank() == 1) return;
    try {
      comm.barrier({.name = "alone", .deadline = milliseconds(100)}).wait();
    } catch (const Error&) {
      over = true;
      throw;
    }
    over = true;
  });
  EXPECT_TRUE(contains(errors[0], "the deadline has passed"));
  EXPECT_TRUE(contains(errors[0], "rank 1"));
}

}  // namespace
}  // namespace starling::dist
