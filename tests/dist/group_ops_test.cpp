// Collectives and messages as ops that name a group of ranks.
#include <gtest/gtest.h>

#include "dist/mesh_worlds.h"
#include "starling/graph/parser.h"
#include "starling/runtime/execution/instance.h"
#include "starling/starling.h"

namespace starling::dist {
namespace {

// Messages to the next rank of a group; the first rank sends first.
Tensor passed_on(const Tensor& x, Symbol group) {
  const WorldGroup place = find_group(current_world(), group, "test");
  const int next = (place.rank + 1) % place.ranks, before = (place.rank + place.ranks - 1) % place.ranks;
  const auto receive = [&](const Tensor& ticket) {
    return recv_from(ticket, {.from = before, .shape = x.shape(), .group = group});
  };
  if (place.rank == 0) {
    const Tensor receipt = send_to(x, {.to = next, .group = group});
    return add(receive(receipt), receipt);
  }
  const Tensor y = receive(mul(sum(x), 0.0));
  return add(y, send_to(x, {.to = next, .group = group}));
}

struct GroupOp {
  const char* name;
  std::function<Tensor(const Tensor&, Symbol group)> apply;
};

const GroupOp kOps[] = {
    {"sum", [](const Tensor& x, Symbol group) { return all_reduce(x, {.group = group}); }},
    {"mean", [](const Tensor& x, Symbol group) { return all_reduce(x, {.reduce = ReduceOp::mean, .group = group}); }},
    {"max", [](const Tensor& x, Symbol group) { return all_reduce(x, {.reduce = ReduceOp::max, .group = group}); }},
    {"product",
     [](const Tensor& x, Symbol group) { return all_reduce(x, {.reduce = ReduceOp::product, .group = group}); }},
    {"broadcast", [](const Tensor& x, Symbol group) { return broadcast(x, {.root = 1, .group = group}); }},
    {"reduce_to_root", [](const Tensor& x, Symbol group) { return reduce_to_root(x, {.root = 1, .group = group}); }},
    {"all_gather", [](const Tensor& x, Symbol group) { return all_gather(x, {.group = group}); }},
    {"reduce_scatter", [](const Tensor& x, Symbol group) { return reduce_scatter(x, {.group = group}); }},
    {"all_to_all", [](const Tensor& x, Symbol group) { return all_to_all(x, {.group = group}); }},
    {"messages", passed_on},
};

Tensor values(int rank) {
  std::vector<double> numbers;
  for (int i = 0; i < 12; ++i) numbers.push_back(std::sin(1.3 * i + 2.7 * rank));
  return from_doubles(numbers, {6, 2}, DType::f64);
}

// Result and gradient of a loss that differs between ranks.
TensorList loss_and_gradient(const GroupOp& op, const Tensor& in, Symbol group, int rank) {
  Tensor x = in.detach();
  x.set_requires_grad();
  const Tensor y = op.apply(mul(x, 1.0 + 0.5 * rank), group);
  const Tensor loss = sum(mul(tanh(y), 0.3 + 0.2 * rank));
  return {y, gradients({&loss, 1}, {&x, 1})[0]};
}

void expect_same(const TensorList& got, const TensorList& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(got[i].shape(), want[i].shape());
    const std::vector<double> a = got[i].to_vector(), b = want[i].to_vector();
    for (std::size_t k = 0; k < b.size(); ++k) EXPECT_NEAR(a[k], b[k], 1e-12) << "element " << k << " of " << i;
  }
}

// The oracle is the same op without a group, where the world is the group's communicator.
TEST(GroupOps, OfAnAxisEqualThoseOfAWorldOfItsRanks) {
  on_mesh(2, 3, [](const Mesh& mesh) {
    for (const char* axis : {"data", "model"}) {
      for (const GroupOp& op : kOps) {
        SCOPED_TRACE(fmt::format("{} along {} on rank {}", op.name, axis, mesh.rank()));
        const Tensor x = values(mesh.rank());
        TensorList want;
        {
          const CommScope scope(mesh.group(axis));
          want = loss_and_gradient(op, x, Symbol(), mesh.rank());
        }
        const CommScope scope(mesh);
        expect_same(loss_and_gradient(op, x, Symbol(axis), mesh.rank()), want);
        auto compiled = compile([&](const Tensor& in) { return loss_and_gradient(op, in, Symbol(axis), mesh.rank()); });
        for (int round = 0; round < 2; ++round) expect_same(compiled(x), want);
      }
    }
  });
}

TEST(GroupOps, OfAllRanksGoOnBesideThoseOfAnAxis) {
  on_mesh(2, 2, [](const Mesh& mesh) {
    const CommScope scope(mesh);
    const Tensor x = full({3}, mesh.rank() + 1.0, DType::f64);
    EXPECT_EQ(all_reduce(x).to_vector()[0], 10);
    EXPECT_EQ(all_reduce(x, {.group = Symbol("model")}).to_vector()[0], mesh.rank() < 2 ? 3 : 7);
    EXPECT_EQ(all_reduce(x, {.group = Symbol("data")}).to_vector()[0], mesh.rank() % 2 == 0 ? 4 : 6);
  });
}

TEST(GroupOps, ACompiledFunctionTakesItsWorldAsAnOption) {
  on_mesh(2, 2, [](const Mesh& mesh) {
    auto total =
        compile([](const Tensor& x) { return all_reduce(x, {.group = Symbol("model")}); }, {.world = mesh.world()});
    EXPECT_EQ(total(full({2}, mesh.rank() + 1.0)).to_vector()[1], mesh.rank() < 2 ? 3 : 7);
  });
}

TEST(GroupOps, ANameThatNoAxisHasIsRefusedWithOpAndGroups) {
  on_mesh(2, 1, [](const Mesh& mesh) {
    const Tensor x = full({2}, 1.0);
    const auto refusal = [&](const std::function<void()>& call) {
      try {
        call();
      } catch (const Error& error) {
        return std::string(error.what());
      }
      return std::string("no error");
    };
    const CommScope scope(mesh);
    const auto gather = [&] { all_gather(x, {.group = Symbol("modle")}); };
    EXPECT_TRUE(contains(refusal(gather), "[all_gather] expected one of the groups data, model, got 'modle'"));
    const CommScope inner(mesh.comm());
    const auto reduce = [&] { all_reduce(x, {.group = Symbol("model")}); };
    EXPECT_TRUE(contains(refusal(reduce), "[all_reduce] expected no group, as this world has no mesh to name groups"));
  });
}

TEST(GroupOps, AnInstanceIsRefusedWhenItIsMadeIfAGroupIsMissing) {
  on_mesh(2, 1, [](const Mesh& mesh) {
    const auto executable = runtime::Executable::build(graph::parse_graph(R"(starling-graph 1
%0 = input {shape=[4]}
%1 = all_reduce(%0) {group="expert"}
return %1)"),
                                                       {.threads = 1});
    const runtime::InstanceOptions options{.comm = &mesh.comm(), .rank = mesh.rank(), .groups = mesh.world().groups};
    try {
      const runtime::Instance instance(executable, Container(), options);
      FAIL() << "an instance without its group was made";
    } catch (const Error& error) {
      EXPECT_TRUE(contains(error.what(), "[all_reduce] expected one of the groups data, model, got 'expert'"));
    }
  });
}

TEST(GroupOps, OfARankAloneNeedNoMesh) {
  const Tensor x = full({2, 2}, 3.0);
  EXPECT_EQ(all_reduce(x, {.group = Symbol("model")}).to_vector(), x.to_vector());
  EXPECT_EQ(all_gather(x, {.group = Symbol("model")}).shape(), x.shape());
}

}  // namespace
}  // namespace starling::dist
