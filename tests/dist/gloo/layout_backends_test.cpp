// Layouts over Gloo.
#include "dist/gloo/gloo_worlds.h"
#include "dist/layout_nets.h"

namespace starling::parallel_nets {
namespace {

TEST(LayoutBackends, TrainAsOneProcessOverGloo) {
  for (const Plan& plan : backend_plans())
    run_ranks(dist::make_gloo_comms(plan.ranks()), [&](Comm& comm) { expect_like_one(comm, plan); });
}

}  // namespace
}  // namespace starling::parallel_nets
