#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "starling/optim/line_search.h"
#include "starling/tensor/tensor.h"

namespace starling::optim {

struct LbfgsOptions {
  enum class LineSearch { strong_wolfe, none };  // none: a fixed step of lr along the direction
  double lr = 1;                                 // of the first trial step
  int iterations = 20;                           // per step()
  int evaluations = 0;                           // most evaluations of the loss per step(); 0: 5/4 of the iterations
  double gradient_tolerance = 1e-7;              // stops when no element of the gradient is larger
  double change_tolerance = 1e-9;                // stops when weights or loss change by less
  int history = 10;                              // pairs of steps and gradient differences kept
  LineSearch line_search = LineSearch::strong_wolfe;
  bool compiled = true;        // compiles the loss and its gradient into one program
  std::string name = "lbfgs";  // prefix of its variables: "lbfgs.steps"
};

// L-BFGS (Liu and Nocedal 1989): a loop on the host over a compiled function that evaluates a loss and its gradient.
// For full batches: the loss must be one function for a whole step(). It reads captured tensors at every evaluation; to
// use other data, copy it into them.
//   Lbfgs opt(net.parameters(), [&] { return mse_loss(net(x), y); });
//   for (…) loss = opt.step();
class Lbfgs {
 public:
  using Loss = std::function<Tensor()>;  // scalar function of the parameters
  Lbfgs(std::vector<Tensor> parameters, Loss loss, const LbfgsOptions& options = {});

  double step();                     // up to `iterations` iterations; returns the loss before them
  std::int64_t evaluations() const;  // of the loss so far

  // History, direction and counts by name, for checkpoints; f64.
  std::vector<std::pair<std::string, Tensor>> state() const;

 private:
  using Vector = std::vector<double>;
  LinePoint evaluate();
  LinePoint evaluate_at(const Vector& from, double t);
  Vector position() const;
  void place(const Vector& from, double t);  // parameters := from + t · direction
  void remember(const Vector& gradient);
  void find_direction(const Vector& gradient);
  bool iterate(LinePoint& now, int& left, bool last);

  std::vector<Tensor> parameters_;
  std::function<TensorList()> value_and_gradient_;
  LbfgsOptions options_;
  std::int64_t n_ = 0;
  Tensor steps_, differences_;           // f64[history, n], ring buffers
  Tensor direction_, gradient_;          // f64[n], from the last iteration
  Tensor iterations_, kept_, newest_;    // f64[]: iterations so far, pairs in the rings, index of the next pair
  Tensor evaluations_, length_, scale_;  // f64[]: evaluations so far, last step length, initial inverse Hessian's scale
};

}  // namespace starling::optim
