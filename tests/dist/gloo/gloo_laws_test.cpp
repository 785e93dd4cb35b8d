// Strategy laws and collective gradients over TCP, with ranks as threads.
#include "dist/collective_gradients.h"
#include "dist/gloo/gloo_worlds.h"
#include "dist/strategy_laws.h"

namespace starling::dist {
namespace {

class GlooLaws : public ::testing::TestWithParam<laws::Law> {};

TEST_P(GlooLaws, Hold) {
  run_ranks(make_gloo_comms(4), [](Comm& comm) { GetParam().holds(comm); });
}

INSTANTIATE_TEST_SUITE_P(Laws, GlooLaws, ::testing::ValuesIn(laws::kLaws),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(GlooGradients, OfCollectivesAreThoseOfTheSumOfAllLosses) {
  run_ranks(make_gloo_comms(3), [](Comm& comm) { EXPECT_TRUE(collective_gradients::all_hold(comm)); });
}

}  // namespace
}  // namespace starling::dist
