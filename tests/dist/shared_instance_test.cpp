// A compiled program whose arena is in memory shared by all ranks.
#include <gtest/gtest.h>

#include "dist/shared_worlds.h"
#include "starling/graph/parser.h"
#include "starling/ops/api/creation.h"
#include "starling/runtime/execution/instance.h"

namespace starling::dist {
namespace {

// Records whether the buffers of every all-reduce are in the arena.
class Spy final : public Comm {
 public:
  explicit Spy(Comm& inner) : Comm(&inner), inner_(inner) {}
  CommCapabilities capabilities() const override { return inner_.capabilities(); }
  void abort(std::string_view reason) override { inner_.abort(reason); }

  int calls = 0, in_arena = 0;

 protected:
  Ticket start(const Call& call) override {
    const auto arena = std::dynamic_pointer_cast<SharedArena>(inner_.arena());
    const std::size_t bytes = static_cast<std::size_t>(call.count) * size_of(call.dtype);
    ++calls;
    if (arena && arena->holds(call.send, bytes) && arena->holds(call.recv, bytes)) ++in_arena;
    return Comm::start(inner_, call);
  }
  bool poll(const Ticket& ticket) override { return Comm::poll(inner_, ticket); }
  bool await(const Ticket& ticket, CommTime deadline) override { return Comm::await(inner_, ticket, deadline); }
  void expire(const Ticket& ticket) override { Comm::expire(inner_, ticket); }
  std::unique_ptr<Comm> make_part(const Call& call) override { return Comm::make_part(inner_, call); }

 private:
  Comm& inner_;
};

void run_program(Comm& comm, bool shared, int calls_in_arena) {
  const auto executable = runtime::Executable::build(graph::parse_graph(R"(starling-graph 1
%0 = input {shape=[100, 300]}
%1 = neg(%0)
%2 = all_reduce(%1) lane=comm
%3 = neg(%2)
return %3)"),
                                                     {.threads = 1});
  Spy spy(comm);
  const auto arena = comm.arena();
  {
    runtime::Instance instance(executable, Container(),
                               {.comm = &spy, .rank = comm.rank(), .arena_allocator = shared ? arena : nullptr});
    EXPECT_EQ(arena->stats().live_bytes >= static_cast<std::int64_t>(executable->arena_bytes()), shared);
    const Tensor x = full({100, 300}, comm.rank() + 1.0), y = empty({100, 300}, DType::f32);
    for (int round = 0; round < 3; ++round) instance.run({&x, 1}, {&y, 1});
    EXPECT_EQ(y.data<float>()[29'999], 3.0f);
  }
  EXPECT_EQ(arena->stats().live_bytes, 0);
  EXPECT_EQ(spy.calls, 3);
  EXPECT_EQ(spy.in_arena, calls_in_arena);
}

TEST(SharedInstance, ReducesInItsArenaWhenThatIsShared) {
  run_ranks(shared_comms(2), [](Comm& comm) { run_program(comm, true, 3); });
}

TEST(SharedInstance, CopiesThroughStagingBuffersWhenTheArenaIsPrivate) {
  run_ranks(shared_comms(2), [](Comm& comm) { run_program(comm, false, 0); });
}

}  // namespace
}  // namespace starling::dist
