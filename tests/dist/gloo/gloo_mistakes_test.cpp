#include <gtest/gtest.h>

#include "dist/seeded_mistakes.h"
#include "starling/dist/comm/transport/gloo_comm.h"

namespace starling::seeded {
namespace {

dist::Comms gloo_comms(int world) {
  const auto store = make_memory_store();
  dist::Comms comms(static_cast<std::size_t>(world));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      const CommGroup group{.rank = rank, .size = world, .deadline = milliseconds(4000)};
      comms[static_cast<std::size_t>(rank)] = make_gloo_comm(store, group);
    });
  }
  threads.clear();
  return comms;
}

class SeededGlooMistakes : public ::testing::TestWithParam<int> {};

TEST_P(SeededGlooMistakes, AreAllNamedOnBothSidesWithinASecond) {
  expect_all_named({"gloo", [](int world) { return dist::wrap(gloo_comms(world), dist::make_checking); }}, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Kinds, SeededGlooMistakes, ::testing::Range(0, kKinds),
                         [](const auto& info) { return kKindNames[info.param]; });

}  // namespace
}  // namespace starling::seeded
