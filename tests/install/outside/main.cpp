// A user's first program, built against the installed package: one step eagerly, one compiled.
#include <starling/starling.h>

#include <cmath>
#include <iostream>

namespace sl = starling;

int main() {
  auto net = sl::zoo::lenet({.classes = 10});
  sl::optim::Sgd opt(net.parameters(), {.lr = 0.05, .momentum = 0.9});
  const sl::Tensor x = sl::zeros({8, 1, 28, 28}, sl::DType::f32);
  const sl::Tensor y = sl::zeros({8}, sl::DType::i64);

  auto train = [&](const sl::Tensor& images, const sl::Tensor& labels) {
    auto loss = sl::cross_entropy(net(images), labels);
    loss.backward();
    opt.step();
    return loss;
  };
  const double eager = train(x, y).item();
  auto step = sl::compile(train);
  const double compiled = step(x, y).item();

  std::cout << "eager " << eager << ", compiled " << compiled << '\n';
  return std::isfinite(eager) && std::isfinite(compiled) && compiled < eager ? 0 : 1;
}
