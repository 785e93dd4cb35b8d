// Steps of several programs: gradients stay each rank's own between them and are reduced once.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "dist/comm_worlds.h"
#include "starling/autograd/autograd.h"
#include "starling/dist/strategy/allreduce.h"
#include "starling/dist/strategy/programs/step_parts.h"
#include "starling/graph/tracer.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/matmul.h"
#include "starling/ops/api/random.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/softmax.h"
#include "starling/ops/api/unary.h"
#include "starling/optim/clip.h"
#include "starling/optim/sgd.h"
#include "starling/runtime/compile.h"

namespace starling::dist {
namespace {

constexpr std::int64_t kIn = 5, kOut = 3, kRows = 14;
constexpr std::uint64_t kWeights = kIn * kOut + kOut + kOut;

Tensor drawn(const Shape& shape, DType dtype, std::uint64_t number) {
  manual_seed(number);
  return cast(normal(shape, {.dtype = DType::f64}), dtype);
}

// A linear map, its bias, and a scale that also has a penalty, whose gradient is whole on every rank. A scale that is
// `gated` goes through a softmax, whose gradient needs its operand whole: a collective that only the slot reads.
struct SmallNet {
  explicit SmallNet(DType dtype, bool gates = false)
      : gated(gates), w(drawn({kIn, kOut}, dtype, 1)), b(drawn({kOut}, dtype, 2)), s(drawn({kOut}, dtype, 3)) {
    const char* names[] = {"w", "b", "s"};
    for (std::size_t i = 0; i < 3; ++i) {
      all()[i].set_requires_grad();
      all()[i].set_name(names[i]);
    }
  }
  std::vector<Tensor> all() const { return {w, b, s}; }
  Tensor loss(const Tensor& x, const Tensor& y) const {
    const Tensor off = sub(mul(add(matmul(x, w), b), gated ? softmax(s) : s), y);
    return gated ? mean(square(off)) : add(mean(square(off)), mul(sum(square(s)), 0.01));
  }
  bool gated;
  Tensor w, b, s;
};

struct Counted {
  std::uint64_t calls = 0, received = 0;
};
Counted counted(const Comm* comm) {
  if (!comm) return {};
  const OpCounters now = comm->journal().counters(CommOp::all_reduce);
  return {now.calls, now.bytes_received};
}

struct Trained {
  std::vector<std::vector<double>> weights;
  std::vector<double> losses;
  Counted batch, update;  // of the last step: all its batches, and the update
};

// Steps of `batches` batches each, whose gradients add up, then an update clipped by their norm.
Trained train(DType dtype, const std::shared_ptr<runtime::Strategy>& strategy, Comm* comm, int batches,
              bool gated = false) {
  SmallNet net(dtype, gated);
  optim::Sgd optimizer(net.all(), {.lr = 0.1, .momentum = 0.9});
  CompiledFunction backward(
      [&](std::span<const Tensor> in) {
        const Tensor loss = net.loss(in[0], in[1]);
        mul(loss, 1.0 / batches).backward();
        return TensorList{loss.detach()};
      },
      {.threads = 1, .strategy = strategy});
  CompiledFunction update(
      [&](std::span<const Tensor>) {
        const NoGrad no_grad;
        graph::Tracer* tracer = current_interpreter().tracer();
        for (const auto& parameter : net.all()) tracer->value_of(parameter);
        const Tensor norm = optim::clip_gradient_norm(net.all(), 0.5);
        optimizer.step();
        return TensorList{norm.detach()};
      },
      {.threads = 1, .strategy = strategy});
  Trained trained;
  for (int step = 0; step < 4; ++step) {
    trained.batch = trained.update = {};
    for (int batch = 0; batch < batches; ++batch) {
      const auto number = static_cast<std::uint64_t>(100 + step * batches + batch);
      const Tensor x = drawn({kRows, kIn}, dtype, number), y = drawn({kRows, kOut}, dtype, number + 50);
      const Piece own = comm ? piece_of(kRows, comm->rank(), comm->size()) : Piece{0, kRows};
      const auto rows = [&](const Tensor& t) {
        return slice(t, {.axis = 0, .begin = own.begin, .end = own.begin + own.size});
      };
      const Tensor fields[] = {rows(x), rows(y)};
      const Counted before = counted(comm);
      const TensorList out = comm ? backward.call(fields, GlobalRows{kRows}) : backward.call(fields);
      trained.losses.push_back(out[0].item());
      trained.batch.calls += counted(comm).calls - before.calls;
      trained.batch.received += counted(comm).received - before.received;
    }
    const Counted before = counted(comm);
    trained.losses.push_back(update.call({})[0].item());
    trained.update = {counted(comm).calls - before.calls, counted(comm).received - before.received};
  }
  for (const auto& parameter : net.all()) trained.weights.push_back(parameter.to_vector());
  return trained;
}

std::shared_ptr<Comm> borrowed(Comm& comm) {
  return {&comm, [](Comm*) {}};
}

std::vector<Trained> train_ranks(DType dtype, int world, int batches, bool parts, bool gated = false) {
  std::vector<Trained> all(static_cast<std::size_t>(world));
  run_ranks(make_thread_comms(world), [&](Comm& comm) {
    const auto whole = allreduce(borrowed(comm));
    const std::shared_ptr<runtime::Strategy> strategy =
        parts ? std::shared_ptr<runtime::Strategy>(std::make_shared<StepParts>(whole)) : whole;
    all[static_cast<std::size_t>(comm.rank())] = train(dtype, strategy, &comm, batches, gated);
  });
  return all;
}

double apart(const Trained& a, const Trained& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.losses.size(); ++i) worst = std::max(worst, std::abs(a.losses[i] - b.losses[i]));
  for (std::size_t i = 0; i < a.weights.size(); ++i) {
    for (std::size_t k = 0; k < a.weights[i].size(); ++k)
      worst = std::max(worst, std::abs(a.weights[i][k] - b.weights[i][k]));
  }
  return worst;
}

TEST(LocalGradients, TrainLikeOneProcess) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const int batches : {1, 3}) {
      const Trained one = train(dtype, nullptr, nullptr, batches);
      for (const int world : {2, 3}) {
        for (const Trained& rank : train_ranks(dtype, world, batches, true))
          EXPECT_LE(apart(rank, one), dtype == DType::f32 ? 1e-5 : 1e-12) << name(dtype) << " " << world << " ranks";
      }
    }
  }
}

TEST(LocalGradients, ThatNeededACollectiveAreEverybodys) {
  const Trained one = train(DType::f64, nullptr, nullptr, 2, true);
  for (const int world : {2, 3}) {
    for (const Trained& rank : train_ranks(DType::f64, world, 2, true, true)) EXPECT_LE(apart(rank, one), 1e-12);
  }
}

std::uint64_t received(const std::vector<Trained>& ranks, Counted Trained::*part) {
  std::uint64_t sum = 0;
  for (const auto& rank : ranks) sum += (rank.*part).received;
  return sum;
}

// A small all-reduce of n bytes: each of P ranks reads those of the P-1 others. Batches exchange their loss alone, for
// the caller to see.
TEST(LocalGradients, AreExchangedOnceInAStep) {
  for (const std::uint64_t world : {2, 3}) {
    for (const std::uint64_t batches : {1, 4}) {
      const auto ranks = train_ranks(DType::f64, static_cast<int>(world), static_cast<int>(batches), true);
      EXPECT_EQ(received(ranks, &Trained::update), world * (world - 1) * kWeights * 8) << batches;
      EXPECT_EQ(received(ranks, &Trained::batch), world * (world - 1) * batches * 8) << batches;
      for (const auto& rank : ranks) {
        EXPECT_EQ(rank.update.calls, 1u) << "the norm needs no exchange of its own";
        EXPECT_EQ(rank.batch.calls, batches);
      }
    }
    const auto whole = train_ranks(DType::f64, static_cast<int>(world), 4, false);
    EXPECT_GE(received(whole, &Trained::batch), world * (world - 1) * 4 * kWeights * 8)
        << "control: every batch exchanges";
    EXPECT_EQ(received(whole, &Trained::update), 0u);
  }
}

// With one program for all, clipping by the norm costs nothing either.
TEST(LocalGradients, OfAClippedStepAreReducedOnce) {
  for (const std::uint64_t world : {2, 3}) {
    for (const bool clips : {false, true}) {
      const Comms comms = make_thread_comms(static_cast<int>(world));
      run_ranks(comms, [&](Comm& comm) {
        SmallNet net(DType::f64);
        optim::Sgd optimizer(net.all(), {.lr = 0.1});
        CompiledFunction step(
            [&](std::span<const Tensor> in) {
              net.loss(in[0], in[1]).backward();
              const NoGrad no_grad;
              if (clips) optim::clip_gradient_norm(net.all(), 0.5);
              optimizer.step();
              return TensorList{};
            },
            {.threads = 1, .strategy = allreduce(borrowed(comm))});
        const Piece own = piece_of(kRows, comm.rank(), comm.size());
        const Tensor fields[] = {drawn({own.size, kIn}, DType::f64, 7), drawn({own.size, kOut}, DType::f64, 8)};
        step.call(fields, GlobalRows{kRows});
      });
      std::uint64_t sum = 0;
      for (const auto& comm : comms) sum += comm->journal().counters(CommOp::all_reduce).bytes_received;
      EXPECT_EQ(sum, world * (world - 1) * kWeights * 8) << (clips ? "clipped" : "control: not clipped");
    }
  }
}

// Terms that the narrow type does not have, and whose sum it has: they are exchanged in f32, by one all-reduce, then
// cast.
void expect_reduced_before_cast(DType to, double a, double b) {
  const Comms comms = make_thread_comms(2);
  run_ranks(comms, [&](Comm& comm) {
    CompiledFunction f([to](std::span<const Tensor> in) { return TensorList{cast(sum(in[0], {.axes = {0}}), to)}; },
                       {.threads = 1, .strategy = allreduce(borrowed(comm))});
    const Tensor fields[] = {full({1, 6}, comm.rank() == 0 ? a : b)};
    const TensorList out = f.call(fields, GlobalRows{2});
    EXPECT_EQ(out[0].dtype(), to);
    for (const double v : out[0].to_vector()) EXPECT_EQ(v, 1.5);
  });
  std::uint64_t sum = 0;
  for (const auto& comm : comms) {
    const auto counted = comm->journal().counters(CommOp::all_reduce);
    EXPECT_EQ(counted.calls, 1u) << name(to);
    sum += counted.bytes_received;
  }
  EXPECT_EQ(sum, 2u * 6 * size_of(DType::f32)) << name(to);
}

TEST(PartialSums, AreReducedBeforeACastToFewerBits) {
  expect_reduced_before_cast(DType::f16, 70000, -69998.5);  // beyond its range
  expect_reduced_before_cast(DType::bf16, 1001.5, -1000);   // between its numbers
}

// Terms of 16 bits are widened by each rank, and summed in f32.
TEST(PartialSums, OfFewBitsAreWidenedBeforeTheyAreReduced) {
  const Comms comms = make_thread_comms(2);
  run_ranks(comms, [&](Comm& comm) {
    CompiledFunction f(
        [](std::span<const Tensor> in) { return TensorList{cast(sum(in[0], {.axes = {0}}), DType::f32)}; },
        {.threads = 1, .strategy = allreduce(borrowed(comm))});
    const Tensor fields[] = {full({1, 6}, comm.rank() == 0 ? 2048.0 : 1.0, DType::f16)};
    for (const double v : f.call(fields, GlobalRows{2})[0].to_vector()) EXPECT_EQ(v, 2049);  // no number of f16
  });
}

}  // namespace
}  // namespace starling::dist
