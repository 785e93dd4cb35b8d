// Laws of communication in several groups: a lane for each, and no order between them.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "dist/mesh_worlds.h"
#include "starling/starling.h"

namespace starling::dist {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Symbol axis_of(int group) { return Symbol(group == 0 ? "data" : "model"); }

bool comes_true(const std::function<bool()>& condition, milliseconds within = seconds(20)) {
  const CommTime end = CommClock::now() + within;
  while (!condition() && CommClock::now() < end) std::this_thread::sleep_for(milliseconds(1));
  return condition();
}

// A program with a reduction along "data", which ranks 2 and 3 hold up until they have looked at the groups of ranks 0
// and 1, and after it one along "model".
struct Held {
  std::atomic<bool> met{false};  // the reduction along "model" ended on rank 0 while the other was held
  std::uint64_t started = 0;     // reductions along "model" that rank 0 had started by then
};

void run_held(Held& held, bool overlap) {
  std::array<std::atomic<const Mesh*>, 4> meshes{};
  on_mesh(2, 2, [&](const Mesh& mesh) {
    meshes[static_cast<std::size_t>(mesh.rank())] = &mesh;
    auto program = compile(
        [](const Tensor& a, const Tensor& b) {
          return TensorList{all_reduce(a, {.group = Symbol("data")}), all_reduce(b, {.group = Symbol("model")})};
        },
        {.world = mesh.world(), .overlap = overlap});
    const Tensor a = full({5}, mesh.rank() + 1.0), b = full({7}, 10.0 * (mesh.rank() + 1));
    program.prepare(std::vector<Tensor>{a, b});
    mesh.comm().barrier().wait();
    if (mesh.rank() >= 2) {
      const Comm& data = meshes[0].load()->group("data");
      const Comm& model = meshes[0].load()->group("model");
      EXPECT_TRUE(comes_true([&] { return data.journal().last_sequence(CommOp::all_reduce, -1) == 1; }));
      const auto ended = [&] { return model.journal().last_finished() == 1; };
      // Without a lane of its own it cannot even start: a short look is enough.
      const bool met = comes_true(ended, overlap ? seconds(20) : milliseconds(50));
      if (mesh.rank() == 2) {
        held.met = met;
        held.started = model.journal().last_sequence(CommOp::all_reduce, -1);
        EXPECT_EQ(data.journal().last_finished(), 0u) << "the reduction along \"data\" was not held";
      }
      mesh.group("model").barrier().wait();  // rank 3 waits for rank 2's look
    }
    const TensorList out = program(a, b);
    EXPECT_EQ(out[0].to_vector()[4], mesh.rank() % 2 == 0 ? 4 : 6);
    EXPECT_EQ(out[1].to_vector()[6], mesh.rank() < 2 ? 30 : 70);
  });
}

TEST(GroupLanes, AHeldCollectiveOfOneGroupDoesNotDelayAnotherGroup) {
  Held held;
  run_held(held, true);
  EXPECT_TRUE(held.met);
}

TEST(GroupLanes, OnOneLaneItWould) {
  Held held;
  run_held(held, false);
  EXPECT_FALSE(held.met);
  EXPECT_EQ(held.started, 0u);
}

// A program of elementwise steps and reductions along two axes, each of earlier values.
struct DrawnStep {
  int group = -1;  // -1: a step of compute
  int first = 0, second = 0;
};
using Plan = std::vector<DrawnStep>;
constexpr int kArguments = 2;

Plan random_plan(std::mt19937& random) {
  Plan plan;
  for (int value = kArguments; value < 14; ++value) {
    const auto below = [&](int bound) { return static_cast<int>(random() % static_cast<unsigned>(bound)); };
    plan.push_back({below(2) == 0 ? below(2) : -1, below(value), below(value)});
  }
  return plan;
}

Tensor combined(const Tensor& a, const Tensor& b) { return tanh(add(mul(a, 0.7), mul(b, b))); }

// Applies the plan in an order of the rank's own that keeps the reductions of each axis in theirs.
TensorList applied(const Plan& plan, std::span<const Tensor> arguments, std::mt19937& random) {
  std::vector<Tensor> values(plan.size() + kArguments);
  std::copy(arguments.begin(), arguments.end(), values.begin());
  std::vector<bool> done(plan.size());
  const auto ready = [&](std::size_t i) {
    if (done[i] || !values[static_cast<std::size_t>(plan[i].first)].defined() ||
        !values[static_cast<std::size_t>(plan[i].second)].defined())
      return false;
    for (std::size_t k = 0; k < i; ++k) {
      if (!done[k] && plan[i].group >= 0 && plan[k].group == plan[i].group) return false;
    }
    return true;
  };
  for (std::size_t count = 0; count < plan.size(); ++count) {
    std::vector<std::size_t> choices;
    for (std::size_t i = 0; i < plan.size(); ++i) {
      if (ready(i)) choices.push_back(i);
    }
    const std::size_t next = choices[random() % choices.size()];
    const DrawnStep& step = plan[next];
    const Tensor &a = values[static_cast<std::size_t>(step.first)], &b = values[static_cast<std::size_t>(step.second)];
    values[next + kArguments] =
        step.group < 0 ? combined(a, b) : all_reduce(mul(a, 0.5), {.group = axis_of(step.group)});
    done[next] = true;
  }
  TensorList out;
  for (std::size_t i = kArguments; i < values.size(); ++i) out.push_back(values[i]);
  return out;
}

Tensor argument(int rank, int which) {
  const double values[] = {0.1 + 0.2 * rank, 0.9 - 0.1 * which, -0.3 * rank + which};
  return from_doubles(values, {3}, DType::f64);
}

// The same plan for all ranks in one process: by rank, the results.
std::vector<std::vector<Tensor>> oracle(const Plan& plan, const MeshShape& shape) {
  std::vector<std::vector<Tensor>> values(static_cast<std::size_t>(shape.ranks()));
  for (int rank = 0; rank < shape.ranks(); ++rank)
    for (int i = 0; i < kArguments; ++i) values[static_cast<std::size_t>(rank)].push_back(argument(rank, i));
  for (const DrawnStep& step : plan) {
    std::vector<Tensor> made;
    for (int rank = 0; rank < shape.ranks(); ++rank) {
      const auto at = [&](int r, int i) { return values[static_cast<std::size_t>(r)][static_cast<std::size_t>(i)]; };
      Tensor value = step.group < 0 ? combined(at(rank, step.first), at(rank, step.second)) : Tensor();
      for (int other : step.group < 0 ? std::vector<int>() : shape.group(rank, {axis_of(step.group).str()})) {
        const Tensor term = mul(at(other, step.first), 0.5);
        value = value.defined() ? add(value, term) : term;
      }
      made.push_back(value);
    }
    for (std::size_t rank = 0; rank < made.size(); ++rank) values[rank].push_back(made[rank]);
  }
  return values;
}

void run_random_programs(int data, int model, unsigned first_seed, unsigned programs) {
  on_mesh(
      data, model,
      [&](const Mesh& mesh) {
        for (unsigned seed = first_seed; seed < first_seed + programs; ++seed) {
          std::mt19937 shared(seed), own(1000 * seed + static_cast<unsigned>(mesh.rank()));
          const Plan plan = random_plan(shared);
          const auto body = [&](const Tensor& a, const Tensor& b) {
            const Tensor both[] = {a, b};
            return applied(plan, both, own);
          };
          auto program = compile(body, {.threads = 1, .world = mesh.world()});
          const auto want = oracle(plan, mesh.shape())[static_cast<std::size_t>(mesh.rank())];
          const TensorList got = program(argument(mesh.rank(), 0), argument(mesh.rank(), 1));
          for (std::size_t i = 0; i < got.size(); ++i) {
            const std::vector<double> a = got[i].to_vector(), b = want[i + kArguments].to_vector();
            for (std::size_t k = 0; k < b.size(); ++k)
              ASSERT_NEAR(a[k], b[k], 1e-9) << "step " << i << " of program " << seed << " on rank " << mesh.rank();
          }
        }
      },
      seconds(20));
}

TEST(GroupLanes, ProgramsWhoseRanksMixGroupsInTheirOwnOrderEndOnA2x2Mesh) { run_random_programs(2, 2, 1, 100); }
TEST(GroupLanes, ProgramsWhoseRanksMixGroupsInTheirOwnOrderEndOnA2x3Mesh) { run_random_programs(2, 3, 101, 100); }

}  // namespace
}  // namespace starling::dist
