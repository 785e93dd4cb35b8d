// One rank of a world of processes that checks laws over a given backend. Exits with 0 if all hold, 77 if the build
// lacks the backend.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>

#include "dist/collective_gradients.h"
#include "dist/comm_conformance.h"
#include "dist/layout_nets.h"
#include "dist/strategy_laws.h"
#include "dist/transport_worlds.h"
#include "starling/base/parallel.h"
#include "starling/dist/comm/transport/gloo_comm.h"
#include "starling/dist/comm/transport/mpi_comm.h"
#include "starling/dist/launch/store/store.h"

namespace starling::dist {
namespace {

constexpr int kSkipped = 77;

struct RankSlot {
  std::string backend = "gloo", mode = "strategies", store{};
  int rank = 0, world = 1;

  RankSlot(int count, char** words) {
    for (int i = 1; i + 1 < count; i += 2) {
      const std::string name = words[i], value = words[i + 1];
      if (name == "--backend") backend = value;
      if (name == "--mode") mode = value;
      if (name == "--store") store = value;
      if (name == "--rank") rank = std::stoi(value);
      if (name == "--world") world = std::stoi(value);
    }
  }

  bool there() const { return backend == "mpi" ? has_mpi() : has_gloo(); }
  std::unique_ptr<Comm> comm() const {
    if (backend == "mpi") return make_mpi_comm();
    return make_gloo_comm(make_file_store(store), {.rank = rank, .size = world});
  }
  std::shared_ptr<Transport> transport(std::uint64_t epoch) const {
    if (backend == "mpi") return make_mpi_transport({.epoch = epoch});
    return make_gloo_transport(make_file_store(store), {.rank = rank, .size = world, .epoch = epoch});
  }
};

// Every all-reduce algorithm over the backend's messages: its result, and the bytes of its formula: (P-1)/P of the
// buffer twice, or log2 P times all of it.
bool algorithms_hold(const RankSlot& slot) {
  constexpr std::int64_t kCount = 1200;  // divides by 2, 3 and 4
  constexpr auto kBytes = static_cast<std::uint64_t>(kCount) * sizeof(float);
  std::uint64_t epoch = 1;
  for (const char* name : {"ring", "halving_doubling", "recursive_doubling"}) {
    SCOPED_TRACE(name);
    const auto transport = slot.transport(epoch);
    const CommGroup group{.rank = transport->rank(), .size = transport->size(), .epoch = epoch, .label = name};
    const auto comm = make_transport_comm(transport, group, with_test_costs(forcing(CommOp::all_reduce, name)));
    ++epoch;
    conformance::all_reduce(*comm);
    const std::uint64_t before = comm->journal().counters(CommOp::all_reduce).bytes_sent;
    std::vector<float> data(kCount, 1.0F);
    comm->all_reduce(data.data(), data.data(), kCount, DType::f32, ReduceOp::sum).wait();
    const std::uint64_t sent = comm->journal().counters(CommOp::all_reduce).bytes_sent - before;
    const auto world = static_cast<std::uint64_t>(comm->size());
    const std::uint64_t twice = 2 * (world - 1) * kBytes / world, doubling = world == 4 ? 2 * kBytes : kBytes;
    EXPECT_EQ(sent, std::string(name) == "recursive_doubling" ? doubling : twice);
    comm->barrier().wait();
  }
  return !::testing::Test::HasFailure();
}

int run(const RankSlot& slot) {
  if (!slot.there()) return kSkipped;
  const ThreadScope one(1);
  const auto over = [&](const std::function<bool(Comm&)>& laws) {
    const auto comm = make_checking(slot.comm());
    set_thread_rank(comm->rank());
    return laws(*comm);
  };
  std::map<std::string, std::function<bool()>> modes{
      {"strategies", [&] { return over(laws::run_laws); }},
      {"gradients", [&] { return over(collective_gradients::all_hold); }},
      {"algorithms", [&] { return algorithms_hold(slot); }}};
  for (const auto& net : parallel_nets::kNets) {
    modes[net.name] = [&over, &net] {
      return over([&](Comm& comm) {
        parallel_nets::expect_like_one(comm, net);
        return !::testing::Test::HasFailure();
      });
    };
  }
  for (const auto& plan : parallel_nets::backend_plans()) {
    modes[plan.name] = [&over, plan] {
      return over([&](Comm& comm) {
        parallel_nets::expect_like_one(comm, plan);
        return !::testing::Test::HasFailure();
      });
    };
  }
  check(modes.contains(slot.mode), "expected a mode that is known, got '{}'", slot.mode);
  check(modes.at(slot.mode)(), "laws do not hold over {}", slot.backend);
  return 0;
}

}  // namespace
}  // namespace starling::dist

int main(int count, char** words) {
  ::testing::InitGoogleTest(&count, words);  // gtest expectations are used outside gtest tests
  try {
    return starling::dist::run(starling::dist::RankSlot(count, words));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
