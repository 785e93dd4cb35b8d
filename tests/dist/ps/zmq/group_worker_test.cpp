#include "starling/dist/strategy/servers/group_worker.h"

#include <gtest/gtest.h>

#include <limits>
#include <thread>

#include "dist/ps/ps_testing.h"
#include "starling/dist/comm/threads/threads_comm.h"
#include "starling/ops/api/creation.h"

namespace starling::dist::ps {
namespace {

const std::vector<ServedTensor> kWeight{{.name = "w", .type = {DType::f32, {8}}}};

std::shared_ptr<Comm> alone() { return std::move(make_thread_comms(1, {}).front()); }

// Sum that a group of two has pushed to the servers: member 0 has gradients of 2 with weight 3, and member 1
// such ones.
double pushed(double value, double weight) {
  const ServerThreads servers("inproc", kWeight, 1);
  const auto observer = servers.client(-1);
  put_all(*observer, {zeros({8})});
  auto comms = make_thread_comms(2, {.deadline = std::chrono::seconds(30)});
  const auto member = [&](std::size_t m) {
    Tensor own = zeros({8});
    own.set_name("w").set_requires_grad();
    const auto optimizer = optimizer_named("sgd")({{.parameters = {own}}});
    const auto server = m == 0 ? std::make_shared<ServerWorker>(alone(), "group", ServerRule{}) : nullptr;
    if (server) server->connect_by([&](const TrainedState&) { return servers.client(0); });
    GroupWorker worker(alone(), std::shared_ptr<Comm>(std::move(comms[m])), server, "group", ServerRule{});
    worker.begin({.weights = {{"w", own}}, .rule = optimizer.get()});
    worker.before_step(0);
    const NamedTensor gradients[] = {{"w", full({8}, m == 0 ? 2.0 : value)}};
    GradientStep step{.step = 0, .weight = m == 0 ? 3 : weight, .gradients = gradients};
    worker.exchange(step);
    worker.settle();
  };
  std::thread other([&] { member(1); });
  member(0);
  other.join();
  return pull_all(*observer)[0].data<float>()[5];
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(GroupWorker, PushesTheMeanByWeight) { EXPECT_FLOAT_EQ(static_cast<float>(pushed(6, 1)), 3); }

TEST(GroupWorker, PushesNothingIfOneMembersGradientsAreNotFinite) { EXPECT_EQ(pushed(kNan, 1), 0); }

// A member that was judged before has no weight left.
TEST(GroupWorker, PushesNothingIfAMemberWithoutWeightTellsSo) { EXPECT_EQ(pushed(kNan, 0), 0); }

TEST(GroupWorker, PushesTheGradientsOfOthersBesideAMemberWithoutRows) { EXPECT_EQ(pushed(0, 0), 2); }

}  // namespace
}  // namespace starling::dist::ps
