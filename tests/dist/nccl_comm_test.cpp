// The NCCL backend against a simulated NCCL: results, behaviour on failures, and that the simulation detects every
// possible mistake in the backend's calls.
#include "starling/dist/comm/gpu/nccl_comm.h"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "dist/comm_worlds.h"
#include "dist/fake_nccl.h"
#include "starling/dist/strategy/rank_strategy.h"

namespace starling::dist {
namespace {

using std::chrono::milliseconds;
using Mutate = std::function<void(NcclApi& api, int rank)>;

// A world of simulated GPUs. Throws the first rank's error if initialisation fails.
Comms nccl_comms(FakeNccl& fake, int world, milliseconds deadline = milliseconds(20'000), const Mutate& mutate = {}) {
  Comms control = make_thread_comms(world, {.deadline = deadline}), comms(control.size());
  std::vector<std::exception_ptr> errors(control.size());
  std::vector<std::jthread> threads;
  for (std::size_t r = 0; r < control.size(); ++r) {
    threads.emplace_back([&, r, rank = static_cast<int>(r)] {
      try {
        auto api = std::make_shared<NcclApi>(fake.api(rank));
        if (mutate) mutate(*api, rank);
        comms[r] = make_nccl_comm(api, std::move(control[r]),
                                  {.device = rank, .producer = nullptr, .join_deadline = deadline});
      } catch (...) {
        errors[r] = std::current_exception();
      }
    });
  }
  threads.clear();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return comms;
}

// Device memory of a rank, filled by a kernel and read by the host.
class Buffer {
 public:
  Buffer(FakeNccl& fake, int rank, std::int64_t count) : fake_(fake), api_(fake.api(rank)), rank_(rank), count_(count) {
    data_ = static_cast<float*>(api_.allocate(bytes()));
  }
  ~Buffer() { api_.free(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  float* data() { return data_; }
  void fill(float value) {
    fake_.kernel(rank_, nullptr, data_, bytes(), [this, value] { std::fill_n(data_, count_, value); });
  }
  std::vector<float> read() {
    fake_.touch(rank_, data_, bytes(), "read");
    return {data_, data_ + count_};
  }

 private:
  std::size_t bytes() const { return static_cast<std::size_t>(count_) * sizeof(float); }

  FakeNccl& fake_;
  NcclApi api_;
  const int rank_;
  const std::int64_t count_;
  float* data_ = nullptr;
};

std::vector<float> repeated(float value, std::int64_t count) {
  return std::vector<float>(static_cast<std::size_t>(count), value);
}

// Runs every operation once. True if all results are right.
bool step(FakeNccl& fake, Comm& comm) {
  const int rank = comm.rank(), world = comm.size();
  const auto r = static_cast<float>(rank);
  const float sum = static_cast<float>(world * (world + 1)) / 2;
  bool right = true;
  Buffer gradient(fake, rank, 100), small(fake, rank, 10), all(fake, rank, 10 * world), piece(fake, rank, 10);
  gradient.fill(r + 1);
  small.fill(r);
  const Work first = comm.all_reduce(gradient.data(), gradient.data(), 100, DType::f32, ReduceOp::sum);
  const Work second = comm.all_gather(small.data(), all.data(), 10, DType::f32);
  first.wait();
  right &= gradient.read() == repeated(sum, 100);
  second.wait();
  right &= all.read().back() == static_cast<float>(world - 1);
  comm.reduce_scatter(all.data(), piece.data(), 10, DType::f32, ReduceOp::max).wait();
  right &= piece.read() == repeated(r, 10);
  Buffer turned(fake, rank, 10 * world);
  comm.all_to_all(all.data(), turned.data(), 10, DType::f32).wait();
  right &= turned.read().back() == r;
  comm.broadcast(small.data(), 10, DType::f32, world - 1).wait();
  right &= small.read() == repeated(static_cast<float>(world - 1), 10);
  if (world > 1) {
    Buffer received(fake, rank, 100);
    const Work send = comm.send(gradient.data(), 100, DType::f32, (rank + 1) % world);
    comm.recv(received.data(), 100, DType::f32, (rank + world - 1) % world).wait();
    send.wait();
    right &= received.read() == repeated(sum, 100);
  }
  comm.barrier().wait();
  return right;
}

TEST(Nccl, ARankThatNeverComesIsMissedAtTheDeadlineOfTheJoinNotOfTheGroup) {
  FakeNccl fake(2);
  Comms control = make_thread_comms(2, {.deadline = kNoDeadline});
  const auto join = [&] {
    (void)make_nccl_comm(std::make_shared<NcclApi>(fake.api(0)), std::move(control[0]),
                         {.device = 0, .producer = nullptr, .join_deadline = milliseconds(100)});
  };
  EXPECT_THROW(join(), Error);
}

TEST(Nccl, ComputesWhatTheOthersDoAndLeavesNothingBehind) {
  for (int world = 1; world <= 4; ++world) {
    FakeNccl fake(world);
    run_ranks(nccl_comms(fake, world), [&](Comm& comm) {
      EXPECT_TRUE(comm.capabilities().device_memory);
      for (int i = 0; i < 3; ++i) EXPECT_TRUE(step(fake, comm));
    });
    EXPECT_EQ(fake.violations_at_end(), std::vector<std::string>{}) << world;
  }
}

// The communicator counts what it hands to NCCL, whatever that makes of it: the library says the same.
TEST(Nccl, CountsWhatItHandsToTheLibrary) {
  for (std::uint64_t world = 1; world <= 4; ++world) {
    FakeNccl fake(static_cast<int>(world));
    run_ranks(nccl_comms(fake, static_cast<int>(world)), [&](Comm& comm) {
      EXPECT_TRUE(step(fake, comm));
      OpCounters all;
      for (int op = 0; op < kCommOpCount; ++op) all = all + comm.journal().counters(static_cast<CommOp>(op));
      const auto handed = fake.handed(comm.rank());
      EXPECT_EQ(all.bytes_sent, handed.read);
      EXPECT_EQ(all.bytes_received, handed.written);
      EXPECT_EQ(all.steps, handed.calls);
      const std::uint64_t others = world - 1, shared = world > 1 ? 1 : 0;
      const auto sent = [&](CommOp op) { return comm.journal().counters(op).bytes_sent; };
      const auto received = [&](CommOp op) { return comm.journal().counters(op).bytes_received; };
      EXPECT_EQ(sent(CommOp::all_reduce), 400 * shared);
      EXPECT_EQ(sent(CommOp::all_gather), 40 * shared);
      EXPECT_EQ(received(CommOp::all_gather), 40 * world * shared);
      EXPECT_EQ(sent(CommOp::all_to_all), 40 * others);
      EXPECT_EQ(received(CommOp::recv), 400 * shared);
    });
  }
}

TEST(Nccl, PiecesOfUnequalSizeAreReductionsAndBroadcastsOfEachOwner) {
  FakeNccl fake(3);
  run_ranks(nccl_comms(fake, 3), [&](Comm& comm) {
    const std::vector<std::int64_t> counts{5, 0, 7};
    Buffer data(fake, comm.rank(), 12), piece(fake, comm.rank(), 7), all(fake, comm.rank(), 12);
    data.fill(static_cast<float>(comm.rank()));
    piece.fill(-1);
    comm.reduce_scatter(data.data(), piece.data(), counts, DType::f32, ReduceOp::sum).wait();
    EXPECT_EQ(piece.read()[0], comm.rank() == 1 ? -1.0f : 3.0f);
    comm.all_gather(piece.data(), all.data(), counts, DType::f32).wait();
    EXPECT_EQ(all.read(), repeated(3.0f, 12));
    comm.all_reduce(all.data(), all.data(), 0, DType::f32, ReduceOp::sum).wait();
  });
  EXPECT_EQ(fake.violations_at_end(), std::vector<std::string>{});
}

TEST(Nccl, GathersToAndScattersFromItsRoot) {
  FakeNccl fake(3);
  run_ranks(nccl_comms(fake, 3), [&](Comm& comm) {
    const std::vector<std::int64_t> counts{2, 0, 3};
    const auto own = counts[static_cast<std::size_t>(comm.rank())];
    Buffer piece(fake, comm.rank(), 3), all(fake, comm.rank(), 5);
    piece.fill(static_cast<float>(comm.rank() + 1));
    all.fill(0);
    comm.gather(piece.data(), all.data(), counts, DType::f32, 2).wait();
    if (comm.rank() == 2) {
      EXPECT_EQ(all.read(), (std::vector<float>{1, 1, 3, 3, 3}));
    }
    piece.fill(0);
    comm.scatter(all.data(), piece.data(), counts, DType::f32, 2).wait();
    for (std::int64_t i = 0; i < own; ++i) {
      EXPECT_EQ(piece.read()[static_cast<std::size_t>(i)], static_cast<float>(comm.rank() + 1));
    }
  });
  EXPECT_EQ(fake.violations_at_end(), std::vector<std::string>{});
}

TEST(Nccl, PartsHaveCommunicatorsOfTheirOwn) {
  FakeNccl fake(4);
  run_ranks(nccl_comms(fake, 4), [&](Comm& comm) {
    const auto part = comm.split(comm.rank() % 2, -comm.rank());
    ASSERT_NE(part, nullptr);
    EXPECT_EQ(part->rank(), comm.rank() < 2 ? 1 : 0);
    Buffer x(fake, comm.rank(), 1);
    x.fill(static_cast<float>(comm.rank()));
    part->all_reduce(x.data(), x.data(), 1, DType::f32, ReduceOp::sum).wait();
    EXPECT_EQ(x.read()[0], comm.rank() % 2 == 0 ? 2.0f : 4.0f);
    EXPECT_EQ(comm.split(comm.rank() == 3 ? -1 : 0, 0) == nullptr, comm.rank() == 3);
  });
  EXPECT_EQ(fake.violations_at_end(), std::vector<std::string>{});
}

TEST(Nccl, AMessageWhoseReceiverIsLateHoldsUpNoCollective) {
  FakeNccl fake(2);
  run_ranks(nccl_comms(fake, 2), [&](Comm& comm) {
    Buffer token(fake, comm.rank(), 4), x(fake, comm.rank(), 4);
    token.fill(7);
    x.fill(1);
    Work send;
    if (comm.rank() == 0) send = comm.send(token.data(), 4, DType::f32, 1);
    comm.all_reduce(x.data(), x.data(), 4, DType::f32, ReduceOp::sum).wait();
    if (comm.rank() == 1) comm.recv(token.data(), 4, DType::f32, 0).wait();
    send.wait();
    EXPECT_EQ(token.read()[0], 7.0f);
  });
  EXPECT_EQ(fake.violations_at_end(), std::vector<std::string>{});
}

TEST(Nccl, TypesThatNcclCannotReduceAreRefusedButTravel) {
  FakeNccl fake(2, {.own_memory = false});
  run_ranks(nccl_comms(fake, 2), [&](Comm& comm) {
    std::vector<std::int16_t> x(6, static_cast<std::int16_t>(300 + comm.rank()));
    EXPECT_THROW((void)comm.all_reduce(x.data(), x.data(), 6, DType::i16, ReduceOp::sum), Error);
  });
  FakeNccl other(2, {.own_memory = false});
  run_ranks(nccl_comms(other, 2), [&](Comm& comm) {
    std::vector<std::int16_t> x(6, static_cast<std::int16_t>(300 + comm.rank()));
    comm.broadcast(x.data(), 6, DType::i16, 1).wait();
    EXPECT_EQ(x[5], 301);
  });
  EXPECT_EQ(other.violations_at_end(), std::vector<std::string>{});
}

TEST(Nccl, AnAsynchronousErrorIsNamedOnAllRanksAndNothingIsUsedAfterwards) {
  FakeNccl fake(2, {.hangs = false});
  const auto errors = errors_of(nccl_comms(fake, 2), [&](Comm& comm) {
    EXPECT_TRUE(step(fake, comm));
    Buffer x(fake, comm.rank(), 4);
    if (comm.rank() == 1) {
      std::this_thread::sleep_for(milliseconds(100));  // rank 0 waits by then
      fake.set_fault(static_cast<NcclResult>(6));
    }
    comm.all_reduce(x.data(), x.data(), 4, DType::f32, ReduceOp::sum, {.name = "g"}).wait();
    comm.barrier().wait();
  });
  for (const std::string& error : errors) EXPECT_TRUE(contains(error, "fake error 6"));
  EXPECT_EQ(fake.violations_at_end(), std::vector<std::string>{});
}

TEST(Nccl, AnOperationThatHangsOnTheDeviceEndsAtItsDeadlineAndFreesItsBuffers) {
  FakeNccl fake(2, {.hangs = true});
  const CommTime start = CommClock::now();
  const auto errors = errors_of(nccl_comms(fake, 2), [&](Comm& comm) {
    Buffer x(fake, comm.rank(), 4);  // freed when the error is thrown
    comm.all_reduce(x.data(), x.data(), 4, DType::f32, ReduceOp::sum, {.deadline = milliseconds(200)}).wait();
  });
  EXPECT_LT(seconds_since(start), kAtOnce);
  for (const std::string& error : errors) EXPECT_TRUE(contains(error, "the deadline has passed"));
  EXPECT_EQ(fake.violations_at_end(), std::vector<std::string>{});
}

// Reaction of the supervision to a silent rank, in a group whose calls have a long deadline or none.
constexpr const char* kSilent = "[supervision] rank 1 has been silent";

std::vector<std::string> errors_when_found(const Comms& comms, const std::function<void(Comm&)>& body) {
  return errors_of(comms, [&](Comm& comm) {
    const std::jthread heartbeats([&] {
      std::this_thread::sleep_for(milliseconds(100));
      comm.abort(kSilent);
    });
    body(comm);
  });
}

TEST(Nccl, ARankThatDrainsBeforeASplitIsFreedByItsHeart) {
  FakeNccl fake(2, {.hangs = true});
  const auto errors = errors_when_found(nccl_comms(fake, 2), [&](Comm& comm) {
    Buffer x(fake, comm.rank(), 4);
    [[maybe_unused]] const Work hung = comm.all_reduce(x.data(), x.data(), 4, DType::f32, ReduceOp::sum);
    (void)comm.split(0, comm.rank());
  });
  for (const std::string& error : errors) EXPECT_TRUE(contains(error, kSilent));
}

TEST(Nccl, ARankWhoseLaunchDoesNotEndIsFreedByItsHeart) {
  FakeNccl fake(2);
  std::atomic<bool> stuck{false};
  const auto mutate = [&](NcclApi& api, int) {
    api.async_error = [&stuck, ask = api.async_error](NcclHandle comm, NcclResult& state) {
      const NcclResult result = ask(comm, state);
      if (stuck) state = NcclResult::in_progress;
      return result;
    };
  };
  const Comms comms = nccl_comms(fake, 2, milliseconds(20'000), mutate);
  stuck = true;
  const auto errors = errors_when_found(comms, [&](Comm& comm) {
    Buffer x(fake, comm.rank(), 4);
    comm.all_reduce(x.data(), x.data(), 4, DType::f32, ReduceOp::sum).wait();
  });
  for (const std::string& error : errors) EXPECT_TRUE(contains(error, kSilent));
}

TEST(Nccl, RanksThatDisagreeAreNamedByTheGroupOfHosts) {
  FakeNccl fake(3);
  const auto errors = errors_of(nccl_comms(fake, 3), [&](Comm& comm) {
    Buffer x(fake, comm.rank(), 40);
    const int count = comm.rank() == 1 ? 20 : 40;
    comm.all_reduce(x.data(), x.data(), count, DType::f32, ReduceOp::sum, {.name = "g"}).wait();
  });
  for (const std::string& error : errors) {
    EXPECT_TRUE(contains(error, "ranks 0, 2 call all_reduce(sum) f32 x 40 'g'"));
    EXPECT_TRUE(contains(error, "rank 1 calls all_reduce(sum) f32 x 20 'g'"));
  }
}

// One injected mistake in the backend's calls.
struct Mutation {
  std::string name;
  Mutate mutate;
  std::string caught;  // expected violation
  bool hangs = false;  // hangs until the deadline
};

void PrintTo(const Mutation& mutation, std::ostream* out) { *out << mutation.name; }

std::vector<Mutation> mutations() {
  const auto nothing = [] { return NcclResult::success; };
  return {
      {"messages_without_a_group", [=](NcclApi& api, int) { api.group_start = api.group_end = nothing; },
       "outside a group", true},
      {"a_group_left_open", [=](NcclApi& api, int) { api.group_end = nothing; }, "while a group is open"},
      {"a_group_ended_twice",
       [](NcclApi& api, int) {
         api.group_end = [end = api.group_end] {
           const NcclResult result = end();
           (void)end();
           return result;
         };
       },
       "group_end without group_start"},
      {"no_wait_for_the_producer", [](NcclApi& api, int) { api.stream_wait = [](DeviceStream, DeviceEvent) {}; },
       "reads its buffer before it is written"},
      {"an_operation_on_the_wrong_stream",
       [](NcclApi& api, int) {
         api.all_reduce = [f = api.all_reduce](const void* s, void* r, std::size_t n, NcclType t, NcclReduction o,
                                               NcclHandle c, DeviceStream) { return f(s, r, n, t, o, c, nullptr); };
       },
       "while its all_reduce is outstanding"},
      {"an_end_that_is_not_waited_for", [](NcclApi& api, int) { api.passed = [](DeviceEvent) { return true; }; },
       "is outstanding"},
      {"an_id_of_ones_own",
       [](NcclApi& api, int rank) {
         if (rank != 1) return;
         api.init_rank = [init = api.init_rank, make = api.get_unique_id](NcclHandle& c, int world, const NcclId&,
                                                                          int r) {
           NcclId own;
           (void)make(own);
           return init(c, world, own, r);
         };
       },
       "init with another id", true},
      {"bytes_for_elements",
       [](NcclApi& api, int) {
         api.all_gather = [f = api.all_gather](const void* s, void* r, std::size_t n, NcclType t, NcclHandle c,
                                               DeviceStream on) { return f(s, r, n * 4, t, c, on); };
       },
       "beyond its buffer"},
      {"another_dtype",
       [](NcclApi& api, int rank) {
         if (rank != 1) return;
         api.all_reduce = [f = api.all_reduce](const void* s, void* r, std::size_t n, NcclType, NcclReduction o,
                                               NcclHandle c,
                                               DeviceStream on) { return f(s, r, n, NcclType::u32, o, c, on); };
       },
       "of another dtype than rank 0's"},
      {"another_order",
       [](NcclApi& api, int rank) {
         if (rank != 1) return;
         // The first all_reduce is delayed until after the all_gather.
         auto kept = std::make_shared<std::function<NcclResult()>>();
         api.all_reduce = [f = api.all_reduce, kept](const void* s, void* r, std::size_t n, NcclType t, NcclReduction o,
                                                     NcclHandle c, DeviceStream on) {
           *kept = [=] { return f(s, r, n, t, o, c, on); };
           return NcclResult::success;
         };
         api.all_gather = [f = api.all_gather, kept](const void* s, void* r, std::size_t n, NcclType t, NcclHandle c,
                                                     DeviceStream on) {
           const NcclResult result = f(s, r, n, t, c, on);
           if (*kept) (void)std::exchange(*kept, nullptr)();
           return result;
         };
       },
       "where rank 0 has", true},
      {"a_launch_that_is_not_waited_for",
       [](NcclApi& api, int) {
         api.async_error = [f = api.async_error](NcclHandle c, NcclResult& state) {
           const NcclResult result = f(c, state);
           if (state == NcclResult::in_progress) state = NcclResult::success;
           return result;
         };
       },
       "record behind a launch that is still in progress"},
      {"a_communicator_destroyed_twice",
       [](NcclApi& api, int) { api.destroy = [f = api.destroy](NcclHandle c) { return (void)f(c), f(c); }; },
       "of a communicator that was destroyed"},
      {"a_communicator_not_finalized",
       [=](NcclApi& api, int) { api.finalize = [](NcclHandle) { return NcclResult::success; }; },
       "destroy without finalize"},
      {"a_communicator_left_behind",
       [=](NcclApi& api, int) { api.destroy = [](NcclHandle) { return NcclResult::success; }; },
       "a communicator was left behind"},
      {"a_buffer_freed_too_early",
       [](NcclApi& api, int) {
         api.all_reduce = [f = api.all_reduce, release = api.free](const void* s, void* r, std::size_t n, NcclType t,
                                                                   NcclReduction o, NcclHandle c, DeviceStream on) {
           const NcclResult result = f(s, r, n, t, o, c, on);
           if (n == 1) release(r);  // the barrier's buffer
           return result;
         };
       },
       "free"},
  };
}

class SeededNccl : public ::testing::TestWithParam<Mutation> {};

TEST_P(SeededNccl, MistakesAreDetectedByTheSimulation) {
  FakeNccl fake(2);
  try {
    const milliseconds deadline(GetParam().hangs ? 2000 : 20'000);
    errors_of(nccl_comms(fake, 2, deadline, GetParam().mutate), [&](Comm& comm) { (void)step(fake, comm); });
  } catch (const Error&) {
    // Some mutations already fail at initialisation.
  }
  const auto violations = fake.violations_at_end();
  const std::string text = fmt::format("{}", fmt::join(violations, "\n"));
  EXPECT_TRUE(contains(text, GetParam().caught));
}

INSTANTIATE_TEST_SUITE_P(Mistakes, SeededNccl, ::testing::ValuesIn(mutations()),
                         [](const auto& info) { return info.param.name; });

TEST(Nccl, IsNotThereWithoutItsLibraryAndSaysSo) {
  if (has_nccl()) GTEST_SKIP() << "built with NCCL";
  try {
    (void)nccl_api(0);
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_TRUE(contains(error.what(), "[nccl] expected a build with CUDA and NCCL"));
  }
}

}  // namespace
}  // namespace starling::dist
