#include "dist/strategy_laws.h"

#include "dist/shared_worlds.h"
#include "dist/transport_worlds.h"

namespace starling::dist {
namespace {

class StrategyLaws : public ::testing::TestWithParam<std::tuple<laws::Law, Backend, int>> {};

TEST_P(StrategyLaws, Hold) {
  const auto& [law, backend, world] = GetParam();
  run_ranks(backend.make(world), [&, &law = law](Comm& comm) { law.holds(comm); });
}

std::string name_of(const ::testing::TestParamInfo<StrategyLaws::ParamType>& info) {
  const auto& [law, backend, world] = info.param;
  return std::string(law.name) + "_over_" + backend.name + "_P" + std::to_string(world);
}

// Over Gloo: gloo/gloo_laws_test.cpp; over processes: processes/rank.cpp.
INSTANTIATE_TEST_SUITE_P(Laws, StrategyLaws,
                         ::testing::Combine(::testing::ValuesIn(laws::kLaws),
                                            ::testing::Values(checking_backend(), shared_backend(), memory_backend()),
                                            ::testing::Values(2, 4)),
                         name_of);

}  // namespace
}  // namespace starling::dist
