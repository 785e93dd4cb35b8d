// Small networks of the zoo, for comparing P ranks with b rows each with one rank of P · b rows.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "dist/strategy_testing.h"
#include "starling/dist/strategy/allreduce.h"
#include "starling/starling.h"

namespace starling::parallel_nets {

struct Net {
  const char* name;
  nlohmann::json options = {};
  bool has_batch_norm = false;
};
inline std::ostream& operator<<(std::ostream& out, const Net& net) { return out << net.name; }

inline const Net kNets[] = {
    {"lenet"},
    {"lstm"},
    {"resnet18", {{"image", 32}, {"width", 0.125}}, true},
    {"gpt"},
};

enum class Norm { local, global };

// A small network with its optimizer and one batch; two of the same dtype start equal.
struct Step {
  zoo::Recipe recipe;
  std::shared_ptr<nn::Module> net;
  optim::Sgd opt;
  TensorList batch;

  Step(const Net& which, std::int64_t rows, DType dtype, Norm norm)
      : recipe(chosen(which).make()),
        net(make(recipe, dtype, norm)),
        opt(net->parameters(), {.lr = 0.01, .momentum = 0.9}),
        batch(zoo::random_batch(recipe, rows, dtype)) {
    manual_seed(7);
  }

  std::span<const Tensor> fields() const { return {batch.data(), batch.size()}; }

  TensorList gradients_of(std::span<const Tensor> in) {
    const Tensor loss = zoo::loss(recipe, *net, in);
    TensorList all = gradients({&loss, 1}, net->parameters());
    all.push_back(loss.detach());
    return all;
  }

  Tensor step(std::span<const Tensor> in) {
    Tensor loss = zoo::loss(recipe, *net, in);
    loss.backward();
    opt.step();
    return loss;
  }

 private:
  static zoo::Net chosen(const Net& which) {
    const zoo::Net small = zoo::nets().small(which.name).net;
    return which.options.empty() ? small : zoo::with(small, which.options);
  }
  static std::shared_ptr<nn::Module> make(const zoo::Recipe& recipe, DType dtype, Norm norm) {
    manual_seed(7);
    auto net = recipe.make();
    net->to(dtype);
    nn::use_global_statistics(*net, norm == Norm::global);
    return net;
  }
};

// |a - b| / |b| over all gradients and the loss together.
inline double distance(const TensorList& a, const TensorList& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const auto x = a[i].to_vector(), y = b[i].to_vector();
    for (std::size_t k = 0; k < y.size(); ++k) {
      difference += (x[k] - y[k]) * (x[k] - y[k]);
      size += y[k] * y[k];
    }
  }
  return std::sqrt(difference / size);
}

// Results of one rank: gradients of the global program of which it runs its part, and losses of twenty steps.
struct Found {
  TensorList gradients;  // gradients, then the loss
  std::vector<double> losses;
};

inline Found alone(const Net& net, std::int64_t rows, DType dtype) {
  Found found;
  Step one(net, rows, dtype, Norm::local);
  CompiledFunction gradients([&](std::span<const Tensor> in) { return one.gradients_of(in); }, {.threads = 1});
  found.gradients = gradients.call(one.fields());
  CompiledFunction step([&](std::span<const Tensor> in) { return TensorList{one.step(in)}; }, {.threads = 1});
  for (int i = 0; i < 20 && dtype == DType::f32; ++i) found.losses.push_back(step.call(one.fields())[0].item());
  return found;
}

// Runs one rank, which holds the whole batch and passes its rows of it.
inline Found on_rank(Comm& comm, const Net& net, std::int64_t rows, DType dtype, Norm norm) {
  Found found;
  Step many(net, rows, dtype, norm);
  const auto strategy = allreduce(testing::borrowed(comm));
  TensorList own;
  for (const Tensor& field : many.batch) own.push_back(testing::rows_of_tensor(field, strategy->rows(rows)));
  const std::span<const Tensor> fields(own.data(), own.size());
  const CompileOptions options{.threads = 1, .strategy = strategy};
  CompiledFunction gradients([&](std::span<const Tensor> in) { return many.gradients_of(in); }, options);
  found.gradients = gradients.call(fields, GlobalRows{rows});
  CompiledFunction step([&](std::span<const Tensor> in) { return TensorList{many.step(in)}; }, options);
  for (int i = 0; i < 20 && dtype == DType::f32; ++i)
    found.losses.push_back(step.call(fields, GlobalRows{rows})[0].item());
  return found;
}

inline double losses_apart(const Found& a, const Found& b) {
  double worst = 0;
  for (std::size_t i = 0; i < b.losses.size(); ++i) worst = std::max(worst, std::abs(a.losses[i] - b.losses[i]));
  return worst;
}

// Compares P ranks of 4 rows each with one rank of 4P rows; rank 0 judges. Control for networks with batch norm: with
// per-rank statistics the comparison must fail.
inline void expect_like_one(Comm& comm, const Net& net) {
  const std::int64_t rows = 4 * comm.size();
  for (const DType dtype : {DType::f64, DType::f32}) {
    const Found many = on_rank(comm, net, rows, dtype, Norm::global);
    const Found apart = net.has_batch_norm ? on_rank(comm, net, rows, dtype, Norm::local) : Found{};
    if (comm.rank() != 0) continue;
    const Found one = alone(net, rows, dtype);
    EXPECT_LE(distance(many.gradients, one.gradients), dtype == DType::f64 ? 1e-12 : 1e-5) << net;
    EXPECT_LE(losses_apart(many, one), 1e-3) << net;
    if (dtype == DType::f32) {
      EXPECT_EQ(many.losses.size(), 20U);
    }
    if (!net.has_batch_norm) continue;
    EXPECT_GT(distance(apart.gradients, one.gradients), 1e-3) << net;
    if (dtype == DType::f32) {
      EXPECT_GT(losses_apart(apart, one), 1e-3) << net;
    }
  }
}

}  // namespace starling::parallel_nets
