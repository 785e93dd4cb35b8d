#include "dist/seeded_mistakes.h"

#include <gtest/gtest.h>

#include "dist/shared_worlds.h"
#include "dist/transport_worlds.h"

namespace starling::seeded {
namespace {

const ThreadWorldOptions kPatient{.deadline = milliseconds(4000)};

World threads_checked() {
  return {"threads", [](int world) { return dist::wrap(make_thread_comms(world, kPatient), dist::make_checking); }};
}

CommGroup patient_group(milliseconds deadline) { return {.deadline = deadline}; }

dist::Comms memory_comms(int world, milliseconds deadline) {
  return dist::make_transport_comms(dist::make_memory_network(world), world, dist::with_test_costs(),
                                    patient_group(deadline));
}

World memory_checked() {
  return {"memory", [](int world) { return dist::wrap(memory_comms(world, milliseconds(4000)), dist::make_checking); }};
}

World shared_checked() {
  return {"shared", [](int world) {
            return dist::wrap(make_shared_comms(world, {.deadline = milliseconds(4000), .arena_bytes = 1 << 20}),
                              dist::make_checking);
          }};
}

class SeededMistakes : public ::testing::TestWithParam<std::tuple<World, int>> {};

TEST_P(SeededMistakes, AreAllNamedOnBothSidesWithinASecond) {
  const auto& [world, kind] = GetParam();
  expect_all_named(world, kind);
}

INSTANTIATE_TEST_SUITE_P(Worlds, SeededMistakes,
                         ::testing::Combine(::testing::Values(threads_checked(), memory_checked(), shared_checked()),
                                            ::testing::Range(0, kKinds)),
                         [](const auto& info) {
                           return std::get<0>(info.param).name + "_" + kKindNames[std::get<1>(info.param)];
                         });

// Without their mistake, the programs succeed.
TEST(SeededMistakesControl, ProgramsWithoutAMistakeEndWell) {
  for (int i = 0; i < 40; ++i) {
    Case c = Generator(i, static_cast<Kind>(i % kKinds)).make();
    const Program right = c.programs[static_cast<std::size_t>((c.odd + 1) % c.world)];
    c.programs.assign(c.programs.size(), right);
    const Outcome outcome = play(c, threads_checked().make(c.world));
    for (const std::string& message : outcome.messages) EXPECT_EQ(message, "") << i;
  }
}

// Over a transport without the decorator, mismatched ranks get wrong data or hang until their deadline.
// Label: waits
TEST(SeededMistakesControl, WithoutTheDecoratorMistakesAreNotNamed) {
  const auto unchecked = [](int world) { return memory_comms(world, milliseconds(120)); };
  int played = 0, named = 0;
  for (Kind kind : {Kind::order, Kind::count, Kind::dtype, Kind::op, Kind::reduction, Kind::root, Kind::name}) {
    const Tally tally = play_all(kind, unchecked);
    played += tally.played;
    named += tally.in_time;
  }
  EXPECT_GE(played, 90);
  EXPECT_LE(named, played / 20);
}

}  // namespace
}  // namespace starling::seeded
