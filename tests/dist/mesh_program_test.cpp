// Compiled programs of ranks in a mesh: rows split over one axis, a layer split over another.
#include <gtest/gtest.h>

#include "dist/mesh_worlds.h"
#include "starling/dist/strategy/allreduce.h"
#include "starling/starling.h"

namespace starling::dist {
namespace {

constexpr std::int64_t kGlobalRows = 8, kFeatures = 6, kUnits = 12, kResults = 3;

struct Weights {
  Tensor up, down;
};

Tensor piece(const Tensor& x, int axis, const Piece& own) {
  const Tensor part = slice(x, {.axis = axis, .begin = own.begin, .end = own.begin + own.size});
  return from_doubles(part.to_vector(), part.shape(), DType::f64);
}

// Columns of the first weight and rows of the second that belong to one of `parts` ranks.
Weights weights(int part, int parts) {
  manual_seed(5);
  const Tensor up = normal({kFeatures, kUnits}, {.dtype = DType::f64}),
               down = normal({kUnits, kResults}, {.dtype = DType::f64});
  const Piece own = piece_of(kUnits, part, parts);
  Weights made{.up = piece(up, 1, own), .down = piece(down, 0, own)};
  made.up.set_name("up");
  made.down.set_name("down");
  for (Tensor* weight : {&made.up, &made.down}) weight->set_requires_grad();
  return made;
}

Tensor batch() {
  manual_seed(9);
  return normal({kGlobalRows, kFeatures}, {.dtype = DType::f64});
}

// Output that is whole on all ranks of `group`, over which the hidden units are cut.
Tensor forward(const Weights& w, const Tensor& x, Symbol group) {
  const Tensor y = matmul(tanh(matmul(x, w.up)), w.down);
  return group.empty() ? y : all_reduce(y, {.group = group});
}

// One step of plain gradient descent; the loss that all ranks of the group have is counted once.
Tensor step(const Weights& w, const Tensor& x, Symbol group, double parts) {
  const Tensor y = forward(w, x, group);
  const Tensor loss = mean(mul(y, y));
  const Tensor counted = mul(loss, 1.0 / parts);
  const Tensor leaves[] = {w.up, w.down};
  const TensorList grads = gradients({&counted, 1}, leaves);
  const NoGrad no_grad;
  for (std::size_t i = 0; i < 2; ++i) assign(leaves[i], sub(leaves[i], mul(grads[i], 0.1)));
  return loss;
}

TEST(MeshProgram, RowsAlongOneAxisAndColumnsAlongAnotherTrainAsOneProcess) {
  std::vector<double> losses;
  const Weights whole = weights(0, 1);
  for (int i = 0; i < 3; ++i) losses.push_back(step(whole, batch(), Symbol(), 1).item());
  on_mesh(2, 2, [&](const Mesh& mesh) {
    const Weights own = weights(mesh.coordinate("model"), 2);
    auto train = compile([&](const Tensor& x) { return step(own, x, Symbol("model"), 2); },
                         {.threads = 1, .strategy = allreduce(mesh.share("data")), .world = mesh.world()});
    const Tensor x = piece(batch(), 0, piece_of(kGlobalRows, mesh.coordinate("data"), 2));
    for (double want : losses) {
      const TensorList got = train.call({&x, 1}, GlobalRows{kGlobalRows});
      EXPECT_NEAR(got[0].item(), want, 1e-12);
    }
    int groups = 0;
    for (const graph::Node& node : train.graph().nodes()) {
      if (!node.op->comm) continue;
      const std::string group = graph::comm_group(node).str();
      EXPECT_TRUE(group == "data" || group == "model") << group;
      groups |= group == "data" ? 1 : 2;
    }
    EXPECT_EQ(groups, 3);
  });
}

TEST(MeshProgram, ACommunicatorThatIsNoGroupOfTheWorldIsRefused) {
  const Comms others = make_thread_comms(1);
  on_mesh(1, 1, [&](const Mesh& mesh) {
    const Tensor x = full({2}, 1.0);
    const std::shared_ptr<Comm> stranger(others[0].get(), [](Comm*) {});
    auto f =
        compile([](const Tensor& in) { return sum(in); }, {.strategy = allreduce(stranger), .world = mesh.world()});
    EXPECT_THROW(f.call({&x, 1}, GlobalRows{2}), Error);
  });
}

}  // namespace
}  // namespace starling::dist
