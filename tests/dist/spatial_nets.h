// Small networks over pictures of any size, whose rows are split over ranks, and the results of one process.
#pragma once

#include "dist/layout_nets.h"
#include "starling/dist/strategy/programs/planned_step.h"
#include "starling/graph/tracer.h"
#include "starling/nn/layers.h"

namespace starling::spatial_nets {

struct Picture {
  std::string name;
  Shape x;
  std::function<nn::Sequential()> layers;
};
inline std::ostream& operator<<(std::ostream& out, const Picture& one) { return out << one.name; }

// Network and picture with the same numbers in every call; two of the same dtype start equal.
struct Made {
  nn::Sequential net;
  Tensor x;

  Made(const Picture& picture, DType dtype) : net((manual_seed(11), picture.layers())) {
    net.to(dtype);
    x = cast(normal(picture.x), dtype);
  }

  // With the running statistics of norms, as a call has left them.
  TensorList with_buffers(TensorList found) {
    for (const auto& [name, buffer] : net.named_buffers()) found.push_back(mul(buffer, 1.0));
    return found;
  }

  // Gradients of parameters, and a loss that counts every element of the result differently.
  TensorList gradients_of(const Tensor& in) {
    const Tensor y = net(in);
    const Tensor each =
        reshape(cast(arange(0, static_cast<double>(y.numel() / y.size(0))), y.dtype()), without_rows(y.shape()));
    const Tensor loss = mean(mul(mul(y, y), sin(each)));
    TensorList all = gradients({&loss, 1}, net.parameters());
    all.push_back(loss.detach());
    return all;
  }

 private:
  static Shape without_rows(Shape shape) {
    shape[0] = 1;
    return shape;
  }
};

inline TensorList alone(const Picture& picture, DType dtype) {
  Made made(picture, dtype);
  CompiledFunction gradients([&](std::span<const Tensor> in) { return made.gradients_of(in[0]); }, {.threads = 1});
  return made.with_buffers(gradients.call({&made.x, 1}));
}

struct OnRanks {
  TensorList gradients{};
  std::int64_t borders = 0;  // bytes that this rank sent in messages
};

// One rank of `ranks` with a piece of the rows of every picture.
inline OnRanks on_rank(Comm& comm, const Picture& picture, DType dtype, const std::vector<MeshAxis>& mesh,
                       const dist::LayoutChoice& layout = {.preset = "spatial"}) {
  Made made(picture, dtype);
  const auto strategy = allreduce(testing::borrowed(comm), {.mesh = {mesh}, .layout = layout});
  dist::TrainedState state;
  for (auto& [name, tensor] : made.net.named_parameters()) state.weights.push_back({name, tensor});
  for (auto& [name, tensor] : made.net.named_buffers()) state.buffers.push_back({name, tensor});
  strategy->begin(state);
  const std::int64_t rows = picture.x[0];
  const Tensor own = testing::rows_of_tensor(made.x, strategy->rows(rows));
  const auto sent = [&] { return static_cast<std::int64_t>(strategy->exchanged(CommOp::send).bytes_sent); };
  const std::int64_t before = sent();
  CompiledFunction gradients([&](std::span<const Tensor> in) { return made.gradients_of(in[0]); },
                             {.threads = 1, .strategy = strategy});
  OnRanks some{.gradients = made.with_buffers(gradients.call({&own, 1}, GlobalRows{rows}))};
  some.borders = sent() - before;
  return some;
}

// Ops of the step that take whole operands, as `starling inspect layout` tells them.
inline std::string fallbacks(const Picture& picture, const std::vector<MeshAxis>& mesh,
                             const dist::LayoutChoice& layout = {.preset = "spatial"}, DType dtype = DType::f32) {
  Made made(picture, dtype);
  const auto step = [&](std::span<const Tensor> in) { return made.gradients_of(in[0]); };
  const graph::Graph traced = graph::trace(step, std::span<const Tensor>(&made.x, 1)).graph;
  const dist::StatePlan plan({mesh}, layout, 0, MeshShape(mesh).ranks());
  std::string told;
  for (const auto& one : plan_step(traced, plan, 0).fallbacks) told += one.op + " ";
  return told;
}

// Results of all ranks, by rank.
inline std::vector<OnRanks> on_threads(const Picture& picture, DType dtype, const std::vector<MeshAxis>& mesh,
                                       const dist::LayoutChoice& layout = {.preset = "spatial"}) {
  const int ranks = MeshShape(mesh).ranks();
  std::vector<OnRanks> all(static_cast<std::size_t>(ranks));
  const auto comms = make_thread_comms(ranks, {.deadline = std::chrono::seconds(60)});
  run_ranks(comms, [&](Comm& comm) {
    all[static_cast<std::size_t>(comm.rank())] = on_rank(comm, picture, dtype, mesh, layout);
  });
  return all;
}

}  // namespace starling::spatial_nets
