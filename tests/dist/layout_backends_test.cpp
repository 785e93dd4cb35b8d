// Layouts over shared memory. Over Gloo: gloo/layout_backends_test.cpp; over processes with Gloo and MPI:
// law_processes/rank.cpp.
#include "dist/layout_nets.h"
#include "dist/shared_worlds.h"

namespace starling::parallel_nets {
namespace {

TEST(LayoutBackends, TrainAsOneProcessOverSharedMemory) {
  for (const Plan& plan : backend_plans())
    run_ranks(dist::shared_comms(plan.ranks()), [&](Comm& comm) { expect_like_one(comm, plan); });
}

}  // namespace
}  // namespace starling::parallel_nets
