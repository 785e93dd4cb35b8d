#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "starling/optim/line_search.h"
#include "starling/tensor/tensor.h"

namespace starling::optim {

struct LbfgsOptions {
  enum class LineSearch { strong_wolfe, none };  // none: steps of lr along the direction
  double lr = 1;                                 // of the first trial step
  int iterations = 20;                           // of one step()
  int evaluations = 0;                           // of the loss in one step(); 0: 5/4 of the iterations
  double gradient_tolerance = 1e-7;              // done when no element of the gradient is larger
  double change_tolerance = 1e-9;                // done when weights or loss change by less
  int history = 10;                              // pairs of steps and gradient differences kept
  LineSearch line_search = LineSearch::strong_wolfe;
  bool compiled = true;        // the loss and its gradient are one compiled program
  std::string name = "lbfgs";  // of its state
};

// L-BFGS (Liu and Nocedal 1989): a loop on the host over a compiled function that evaluates a loss and its gradient.
// For full batches: the loss must be one function for the whole of a step(). It takes what it needs from tensors it
// captures, which are read at every evaluation; to go on with other data, copy it into them.
//   Lbfgs opt(net.parameters(), [&] { return mse_loss(net(x), y); });
//   for (…) loss = opt.step();
class Lbfgs {
 public:
  using Loss = std::function<Tensor()>;  // one element, a function of the parameters
  Lbfgs(std::vector<Tensor> parameters, Loss loss, const LbfgsOptions& options = {});

  double step();                     // up to `iterations` iterations; the loss at its beginning
  std::int64_t evaluations() const;  // of the loss so far

  // History, direction and counts, by name, for checkpoints; f64.
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
  Tensor steps_, differences_;           // f64[history, n], rings
  Tensor direction_, gradient_;          // f64[n], of the last iteration
  Tensor iterations_, kept_, newest_;    // f64[]: done, pairs in the rings, where the next pair goes
  Tensor evaluations_, length_, scale_;  // f64[]: done, the last step's, of the first guess of the inverse Hessian
};

}  // namespace starling::optim
