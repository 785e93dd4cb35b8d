// The conformance suite over every backend whose ranks are threads of one process.
#include "dist/comm_conformance.h"

#include "dist/transport_worlds.h"

namespace starling::dist {
namespace {

class Conformance : public ::testing::TestWithParam<std::tuple<Backend, int, conformance::Check>> {};

TEST_P(Conformance, Holds) {
  const auto& [backend, world, check] = GetParam();
  run_ranks(backend.make(world), check.run);
}

INSTANTIATE_TEST_SUITE_P(Backends, Conformance,
                         ::testing::Combine(::testing::Values(threads_backend(), checking_backend(), faulty_backend(),
                                                              memory_backend(), ordered_memory_backend(),
                                                              checked_memory_backend()),
                                            ::testing::Range(1, 10), ::testing::ValuesIn(conformance::checks())),
                         [](const auto& info) {
                           return std::get<2>(info.param).name + "_" + std::get<0>(info.param).name + "_P" +
                                  std::to_string(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace starling::dist
