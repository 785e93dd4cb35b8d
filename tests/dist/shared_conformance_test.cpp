// The conformance suite and the rules of failure over shared memory, with ranks that are threads.
#include "dist/comm_conformance.h"
#include "dist/shared_worlds.h"

namespace starling::dist {
namespace {

class SharedConformance : public ::testing::TestWithParam<std::tuple<int, conformance::Check>> {};

TEST_P(SharedConformance, Holds) {
  const auto& [world, check] = GetParam();
  run_ranks(shared_comms(world), check.run);
}

INSTANTIATE_TEST_SUITE_P(Shared, SharedConformance,
                         ::testing::Combine(::testing::Range(1, 10), ::testing::ValuesIn(conformance::checks())),
                         [](const auto& info) {
                           return std::get<1>(info.param).name + "_P" + std::to_string(std::get<0>(info.param));
                         });

TEST(SharedConformanceDecorated, HoldsUnderTheCheckingDecorator) {
  for (const conformance::Check& check : conformance::checks()) {
    SCOPED_TRACE(check.name);
    run_ranks(wrap(shared_comms(3), make_checking), check.run);
  }
}

}  // namespace
}  // namespace starling::dist
