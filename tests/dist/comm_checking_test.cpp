#include <gtest/gtest.h>

#include <thread>

#include "dist/comm_worlds.h"

namespace starling::dist {
namespace {

struct Mistake {
  std::string name;
  std::function<void(Comm&)> right;  // calls of all ranks but 1
  std::function<void(Comm&)> wrong;  // calls of rank 1
  std::vector<std::string> both_sides;
};

void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.name; }

thread_local std::vector<float> buffer(400), other(400);

void reduce(Comm& comm, std::int64_t count, const std::string& name, ReduceOp op = ReduceOp::sum,
            DType dtype = DType::f32) {
  comm.all_reduce(buffer.data(), buffer.data(), count, dtype, op, {.name = name}).wait();
}

std::vector<Mistake> mistakes() {
  const auto a = [](Comm& c) { reduce(c, 10, "a"); };
  const auto a_then_b = [](Comm& c) { reduce(c, 10, "a"), reduce(c, 10, "b"); };
  return {
      {"op",
       a,
       [](Comm& c) { c.broadcast(buffer.data(), 10, DType::f32, 0, {.name = "a"}).wait(); },
       {"ranks 0, 2 call all_reduce(sum) f32 x 10 'a'", "rank 1 calls broadcast f32 x 10 'a' root 0"}},
      {"order",
       a_then_b,
       [](Comm& c) { reduce(c, 10, "b"), reduce(c, 10, "a"); },
       {"ranks 0, 2 call all_reduce(sum) f32 x 10 'a'", "rank 1 calls all_reduce(sum) f32 x 10 'b'"}},
      {"count", a, [](Comm& c) { reduce(c, 11, "a"); }, {"f32 x 10 'a'", "rank 1 calls all_reduce(sum) f32 x 11 'a'"}},
      {"dtype",
       a,
       [](Comm& c) { reduce(c, 10, "a", ReduceOp::sum, DType::i32); },
       {"f32 x 10 'a'", "rank 1 calls all_reduce(sum) i32 x 10 'a'"}},
      {"reduction",
       a,
       [](Comm& c) { reduce(c, 10, "a", ReduceOp::max); },
       {"ranks 0, 2 call all_reduce(sum)", "rank 1 calls all_reduce(max) f32 x 10 'a'"}},
      {"root",
       [](Comm& c) { c.broadcast(buffer.data(), 10, DType::f32, 0).wait(); },
       [](Comm& c) { c.broadcast(buffer.data(), 10, DType::f32, 2).wait(); },
       {"ranks 0, 2 call broadcast f32 x 10 root 0", "rank 1 calls broadcast f32 x 10 root 2"}},
      {"gather_root",
       [](Comm& c) { c.gather(other.data(), buffer.data(), 5, DType::f32, 0).wait(); },
       [](Comm& c) { c.gather(other.data(), buffer.data(), 5, DType::f32, 1).wait(); },
       {"ranks 0, 2 call gather f32 x 5 root 0", "rank 1 calls gather f32 x 5 root 1"}},
      {"scatter_for_gather",
       [](Comm& c) { c.gather(other.data(), buffer.data(), 5, DType::f32, 1).wait(); },
       [](Comm& c) { c.scatter(other.data(), buffer.data(), 5, DType::f32, 1).wait(); },
       {"ranks 0, 2 call gather f32 x 5 root 1", "rank 1 calls scatter f32 x 5 root 1"}},
      {"pieces",
       [](Comm& c) {
         c.all_gather(other.data(), buffer.data(), std::vector<std::int64_t>{1, 2, 3}, DType::f32).wait();
       },
       [](Comm& c) {
         c.all_gather(other.data(), buffer.data(), std::vector<std::int64_t>{2, 1, 3}, DType::f32).wait();
       },
       {"ranks 0, 2 call all_gather f32 x 6", "rank 1 calls all_gather f32 x 6", "name and counts"}},
      {"missing_call",
       a_then_b,
       [](Comm& c) { reduce(c, 10, "b"), c.barrier().wait(); },
       {"ranks 0, 2 call all_reduce(sum) f32 x 10 'a'", "rank 1 calls all_reduce(sum) f32 x 10 'b'"}},
      {"extra_call",
       [&](Comm& c) { reduce(c, 10, "a"), c.barrier().wait(); },
       [&](Comm& c) { reduce(c, 10, "a"), reduce(c, 10, "once more"), c.barrier().wait(); },
       {"ranks 0, 2 call barrier", "rank 1 calls all_reduce(sum) f32 x 10 'once more'"}},
      {"split", [](Comm& c) { (void)c.split(0, 0); }, a, {"ranks 0, 2 call split", "rank 1 calls all_reduce(sum)"}},
  };
}

class Checking : public ::testing::TestWithParam<Mistake> {};

// Mistakes are named by the decorator, or by the backend's own check of matching calls.
void expect_named_on_all_ranks(const Comms& comms, const Mistake& mistake, const std::string& found_by) {
  const CommTime start = CommClock::now();
  const auto errors = errors_of(comms, [&](Comm& comm) {
    reduce(comm, 3, "before");
    comm.rank() == 1 ? mistake.wrong(comm) : mistake.right(comm);
  });
  EXPECT_LT(seconds_since(start), kAtOnce);
  for (const std::string& error : errors) {
    EXPECT_TRUE(contains(error, found_by));
    for (const std::string& side : mistake.both_sides) EXPECT_TRUE(contains(error, side));
    EXPECT_TRUE(contains(error, "'before'")) << "the flight recorder tells what came before";
  }
}

// Comms that exchange fingerprints, although threads compare calls themselves.
Comms exchanging(int world) {
  return wrap(make_thread_comms(world),
              [](auto inner) { return make_checking_with(std::move(inner), {.exchange_always = true}); });
}

TEST_P(Checking, NamesBothSidesOnAllRanksWithinASecond) {
  expect_named_on_all_ranks(exchanging(3), GetParam(), ": ranks disagree: ");
}

TEST_P(Checking, LeavesDetectionToABackendThatChecksCallsItself) {
  expect_named_on_all_ranks(checking_backend().make(3), GetParam(), ": ranks of group 'world' disagree: ");
}

TEST_P(Checking, TheThreadsBackendDetectsMismatchesWithoutTheDecorator) {
  expect_named_on_all_ranks(make_thread_comms(3), GetParam(), ": ranks of group 'world' disagree: ");
}

INSTANTIATE_TEST_SUITE_P(Mistakes, Checking, ::testing::ValuesIn(mistakes()),
                         [](const auto& info) { return info.param.name; });

TEST(CheckingMessages, NamesSenderAndReceiver) {
  const auto errors = errors_of(exchanging(2), [](Comm& comm) {
    if (comm.rank() == 0) comm.send(buffer.data(), 10, DType::f32, 1, {.name = "weights"}).wait();
    if (comm.rank() == 1) comm.recv(buffer.data(), 12, DType::f32, 0, {.name = "weights"}).wait();
  });
  for (const std::string& error : errors) {
    EXPECT_TRUE(contains(error, "rank 0 calls send f32 x 10 'weights' from rank 0 #1"));
    EXPECT_TRUE(contains(error, "recv f32 x 12 'weights' from rank 0 #1"));
  }
}

TEST(CheckingMessages, ComparesNamesBeyondTheirTruncatedText) {
  const std::string long_name(100, 'x');
  const auto errors =
      errors_of(exchanging(2), [&](Comm& comm) { reduce(comm, 4, long_name + (comm.rank() == 0 ? "0" : "1")); });
  for (const std::string& error : errors) EXPECT_TRUE(contains(error, "name and counts"));
}

TEST(CheckingGroups, ChecksSubgroupsToo) {
  const auto errors = errors_of(exchanging(4), [](Comm& comm) {
    const auto part = comm.split(comm.rank() / 2, 0);
    reduce(*part, comm.rank() == 3 ? 7 : 8, "part");
  });
  EXPECT_TRUE(contains(errors[2], "rank 1 calls all_reduce(sum) f32 x 7 'part'"));
  EXPECT_TRUE(contains(errors[3], "rank 0 calls all_reduce(sum) f32 x 8 'part'"));
}

// Waits that cannot end are named long before their deadline, with a backend that detects them and one that relies on
// the decorator.
class Watching : public ::testing::TestWithParam<bool> {
 protected:
  static Comms make(int world) { return GetParam() ? exchanging(world) : checking_backend().make(world); }
};

INSTANTIATE_TEST_SUITE_P(Modes, Watching, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "exchanging" : "native"; });

// Label: waits
TEST_P(Watching, NamesRanksThatWaitForEachOther) {
  const CommTime start = CommClock::now();
  const auto errors = errors_of(make(3), [](Comm& comm) {
    reduce(comm, 3, "before");
    if (comm.rank() == 0) return comm.recv(buffer.data(), 4, DType::f32, 1, {.name = "token"}).wait();
    reduce(comm, 8, "grad");
  });
  EXPECT_LT(seconds_since(start), kAtOnce);
  for (const std::string& error : errors) {
    EXPECT_TRUE(contains(error,
                         "ranks wait in vain: rank 0 waits for recv f32 x 4 'token' from rank 1 #1; rank 1 waits"
                         " for all_reduce(sum) f32 x 8 'grad' #"));
  }
}

// Label: waits
TEST_P(Watching, NamesAMessageToTheWrongRank) {
  const CommTime start = CommClock::now();
  const auto errors = errors_of(make(3), [](Comm& comm) {
    if (comm.rank() == 0) comm.send(buffer.data(), 4, DType::f32, 2, {.name = "token"}).wait();  // rank 1 was meant
    if (comm.rank() == 1) comm.recv(buffer.data(), 4, DType::f32, 0, {.name = "token"}).wait();
    comm.barrier().wait();
  });
  EXPECT_LT(seconds_since(start), kAtOnce);
  for (const std::string& error : errors) {
    EXPECT_TRUE(contains(error, "rank 0 waits for send f32 x 4 'token' from rank 0 #1 to rank 2"));
    EXPECT_TRUE(contains(error, "rank 1 waits for recv f32 x 4 'token' from rank 0 #1"));
    EXPECT_TRUE(contains(error, "rank 2 waits for barrier #"));
  }
}

// Label: waits
TEST_P(Watching, NamesARankThatHasLeftWhileOthersOnlyPoll) {
  Comms comms = make(3);
  const CommTime start = CommClock::now();
  const auto errors = errors_of(comms, [&](Comm& comm) {
    reduce(comm, 3, "before");
    if (comm.rank() == 2) return comms[2].reset();
    const Work work = comm.barrier({.name = "the end"});
    while (!work.done()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  EXPECT_LT(seconds_since(start), kAtOnce);
  for (int rank : {0, 1}) EXPECT_TRUE(contains(errors[static_cast<std::size_t>(rank)], "rank 2"));
  for (int rank : {0, 1}) EXPECT_TRUE(contains(errors[static_cast<std::size_t>(rank)], "left"));
}

// Label: waits
TEST_P(Watching, GivesARankTimeToCompute) {
  run_ranks(make(3), [](Comm& comm) {
    float x = 1;
    for (int step = 0; step < 2; ++step) {
      if (comm.rank() == step) std::this_thread::sleep_for(std::chrono::milliseconds(400));
      comm.all_reduce(&x, &x, 1, DType::f32, ReduceOp::sum).wait();
      // A chain of messages in which every rank but the first waits for a waiting one, and the first comes late.
      if (comm.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(400));
      if (comm.rank() > 0) comm.recv(&x, 1, DType::f32, comm.rank() - 1).wait();
      if (comm.rank() < 2) comm.send(&x, 1, DType::f32, comm.rank() + 1).wait();
    }
  });
}

// Label: waits
TEST_P(Watching, IgnoresAWaitWithATimeout) {
  run_ranks(make(2), [](Comm& comm) {
    float token = 1;
    if (comm.rank() == 0) {
      const Work barrier = comm.barrier();
      EXPECT_FALSE(barrier.wait_for(std::chrono::milliseconds(500)));  // then it sends what rank 1 waits for
      comm.send(&token, 1, DType::f32, 1).wait();
      barrier.wait();
    } else {
      comm.recv(&token, 1, DType::f32, 0).wait();
      comm.barrier().wait();
    }
  });
}

// Label: waits
TEST_P(Watching, DoesNotBlameARankWithCallsFromSeveralThreads) {
  run_ranks(make(2), [](Comm& comm) {
    float token = 1;
    comm.barrier().wait();
    if (comm.rank() == 0) {
      std::jthread lane([&] { comm.barrier().wait(); });
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      comm.send(&token, 1, DType::f32, 1).wait();
    } else {
      comm.recv(&token, 1, DType::f32, 0).wait();
      comm.barrier().wait();
    }
  });
}

}  // namespace
}  // namespace starling::dist
