#include <gtest/gtest.h>

#include "dist/comm_worlds.h"

namespace starling {
namespace {

struct Mistake {
  std::string name;
  std::function<void(Comm&)> right;  // what all ranks but 1 do
  std::function<void(Comm&)> wrong;  // what rank 1 does
  std::vector<std::string> both_sides;
};

void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.name; }

thread_local std::vector<float> buffer(400), other(400);

void reduce(Comm& comm, std::int64_t count, const std::string& name, CommReduce op = CommReduce::sum,
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
       [](Comm& c) { reduce(c, 10, "a", CommReduce::sum, DType::i32); },
       {"f32 x 10 'a'", "rank 1 calls all_reduce(sum) i32 x 10 'a'"}},
      {"reduction",
       a,
       [](Comm& c) { reduce(c, 10, "a", CommReduce::max); },
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

// The decorator over the backend, and the backend's own look at the calls that meet in it.
void expect_named_on_all_ranks(const Comms& comms, const Mistake& mistake, const std::string& found_by) {
  const CommTime start = CommClock::now();
  const auto errors = errors_of(comms, [&](Comm& comm) {
    reduce(comm, 3, "before");
    comm.rank() == 1 ? mistake.wrong(comm) : mistake.right(comm);
  });
  EXPECT_LT(seconds_since(start), 1.0);
  for (const std::string& error : errors) {
    EXPECT_TRUE(contains(error, found_by));
    for (const std::string& side : mistake.both_sides) EXPECT_TRUE(contains(error, side));
    EXPECT_TRUE(contains(error, "'before'")) << "the flight recorder tells what came before";
  }
}

TEST_P(Checking, NamesBothSidesOnAllRanksWithinASecond) {
  expect_named_on_all_ranks(checking_backend().make(3), GetParam(), ": ranks disagree: ");
}

TEST_P(Checking, ThreadsLookForThemselves) {
  expect_named_on_all_ranks(make_thread_comms(3), GetParam(), ": ranks of group 'world' disagree: ");
}

INSTANTIATE_TEST_SUITE_P(Mistakes, Checking, ::testing::ValuesIn(mistakes()),
                         [](const auto& info) { return info.param.name; });

TEST(CheckingMessages, NamesSenderAndReceiver) {
  const auto errors = errors_of(checking_backend().make(2), [](Comm& comm) {
    if (comm.rank() == 0) comm.send(buffer.data(), 10, DType::f32, 1, {.name = "weights"}).wait();
    if (comm.rank() == 1) comm.recv(buffer.data(), 12, DType::f32, 0, {.name = "weights"}).wait();
  });
  for (const std::string& error : errors) {
    EXPECT_TRUE(contains(error, "rank 0 calls send f32 x 10 'weights' from rank 0 #1"));
    EXPECT_TRUE(contains(error, "recv f32 x 12 'weights' from rank 0 #1"));
  }
}

TEST(CheckingMessages, LooksAtNamesBeyondWhatTheMessageShows) {
  const std::string long_name(100, 'x');
  const auto errors = errors_of(checking_backend().make(2),
                                [&](Comm& comm) { reduce(comm, 4, long_name + (comm.rank() == 0 ? "0" : "1")); });
  for (const std::string& error : errors) EXPECT_TRUE(contains(error, "name and counts"));
}

TEST(CheckingGroups, WatchesPartsToo) {
  const auto errors = errors_of(checking_backend().make(4), [](Comm& comm) {
    const auto part = comm.split(comm.rank() / 2, 0);
    reduce(*part, comm.rank() == 3 ? 7 : 8, "part");
  });
  EXPECT_TRUE(contains(errors[2], "rank 1 calls all_reduce(sum) f32 x 7 'part'"));
  EXPECT_TRUE(contains(errors[3], "rank 0 calls all_reduce(sum) f32 x 8 'part'"));
}

}  // namespace
}  // namespace starling
