#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "starling/starling.h"

namespace starling::testing {

// A network with its optimizer and one batch, made from a seed; two of the same seed start equal.
struct Bench {
  std::shared_ptr<nn::Module> made;
  nn::Module& net;
  optim::Sgd opt;
  Tensor x, y;

  Bench(const std::string& name, std::int64_t batch, DType dtype, std::int64_t seed = 7)
      : made(make(name, dtype, seed)), net(*made), opt(net.parameters(), {.lr = 0.05, .momentum = 0.9}) {
    const auto fields = zoo::nets().bench(name).net.make().fields;
    Shape shape = fields[0].sample;
    shape.insert(0, batch);
    x = cast(normal(shape), dtype);
    y = cast(uniform({batch}, {.low = 0, .high = static_cast<double>(fields[1].below) - 0.001}), DType::i64);
    default_generator().seed(seed);
  }

  Tensor step(const Tensor& input, const Tensor& labels) {
    Tensor loss = cross_entropy(net(input), labels);
    loss.backward();
    opt.step();
    return loss;
  }

  // Loss and gradients of all parameters, without an update.
  TensorList gradients_of(const Tensor& input, const Tensor& labels) {
    const Tensor loss = cross_entropy(net(input), labels);
    const auto parameters = net.parameters();
    TensorList all = gradients({&loss, 1}, parameters);
    all.push_back(loss.detach());
    return all;
  }

 private:
  static std::shared_ptr<nn::Module> make(const std::string& name, DType dtype, std::int64_t seed) {
    manual_seed(seed);
    auto net = zoo::nets().bench(name).net.make().make();
    net->to(dtype);
    return net;
  }
};

inline double relative_l2(const Tensor& a, const Tensor& b) {
  const auto va = a.to_vector(), vb = b.to_vector();
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < va.size(); ++i) {
    difference += (va[i] - vb[i]) * (va[i] - vb[i]);
    norm += vb[i] * vb[i];
  }
  return std::sqrt(difference) / std::max(std::sqrt(norm), 1e-30);
}

inline bool bit_equal(const Tensor& a, const Tensor& b) { return a.to_vector() == b.to_vector(); }

}  // namespace starling::testing
