// The updates of optimizers alone, compiled, over sets of parameters of real sizes. Reads lines "<kind> <set>" and
// answers each with the least milliseconds of a few steps, or "shapes <set>" with its tensors; compare.py drives it
// beside PyTorch. Kinds are those of jobs, "momentum" is sgd with one. Usage: bench_optimizer [threads] [repeats]
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>

#include "starling/optim/optimizer_kinds.h"
#include "starling/starling.h"

namespace {

using namespace starling;

std::vector<Shape> shapes_of(const std::string& set) {
  std::vector<Shape> shapes;
  if (set == "sae_big") {
    for (const auto& p : zoo::nets().bench("sae_big").net.make().make()->parameters()) shapes.push_back(p.shape());
  } else {
    check(set == "25m", "[bench_optimizer] expected the set sae_big or 25m, got '{}'", set);
    for (int i = 0; i < 24; ++i) {
      shapes.push_back({1024, 1024});
      for (int k = 0; k < 2; ++k) shapes.push_back({1024});
    }
  }
  return shapes;
}

// Parameters, gradients that stay as they are, and a compiled step of the optimizer.
class Case {
 public:
  Case(const std::string& kind, const std::string& set) {
    for (const auto& shape : shapes_of(set)) {
      parameters_.push_back(normal(shape));
      parameters_.back().set_requires_grad();
      parameters_.back().set_name("p" + std::to_string(parameters_.size()));
      gradients_.push_back(normal(shape));
    }
    const bool momentum = kind == "momentum";
    const ConfigNode options = ConfigNode::parse(momentum ? "{lr: 1e-6, momentum: 0.9}" : "{lr: 1e-6}", "options");
    const auto chosen = optim::optimizer_kinds().choose_named(momentum ? "sgd" : kind, options, options);
    optimizer_ = chosen.make()({{.parameters = parameters_}});
    step_ = std::make_unique<CompiledFunction>(
        [this](std::span<const Tensor> gradients) {
          for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i].set_grad(gradients[i]);
          optimizer_->step();
          return TensorList{};
        },
        CompileOptions{});
    for (int i = 0; i < 3; ++i) step_->call(gradients_);
  }

  double milliseconds(int repeats) {
    double best = 1e30;
    for (int i = 0; i < repeats; ++i) {
      const auto start = std::chrono::steady_clock::now();
      step_->call(gradients_);
      best =
          std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    }
    return best;
  }

 private:
  std::vector<Tensor> parameters_, gradients_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<CompiledFunction> step_;
};

}  // namespace

int main(int argc, char** argv) {
  const ThreadScope threads(argc > 1 ? std::atoi(argv[1]) : num_threads());
  const int repeats = argc > 2 ? std::atoi(argv[2]) : 10;
  std::map<std::string, std::unique_ptr<Case>> cases;
  std::string kind, set;
  while (std::cin >> kind >> set) {
    if (kind == "shapes") {
      for (const auto& shape : shapes_of(set)) fmt::print("{} ", fmt::join(shape, "x"));
      fmt::print("\n");
      std::fflush(stdout);
      continue;
    }
    auto& made = cases[kind + " " + set];
    if (!made) made = std::make_unique<Case>(kind, set);
    fmt::print("{:.4f}\n", made->milliseconds(repeats));
    std::fflush(stdout);
  }
}
