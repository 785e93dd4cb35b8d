#pragma once

#include <functional>
#include <string>

#include "starling/dist/ps/client.h"

namespace starling::dist::ps {

// Vectors of a coordinator's procedures, by their numbers on the servers; pairs of L-BFGS follow.
struct CoordinatorVectors {
  static constexpr int kWeights = 0, kGradient = 1, kBefore = 2, kDirection = 3, kFrom = 4, kPairs = 5;
};

struct CoordinatorOptions {
  enum class Procedure { lbfgs, cg };
  Procedure procedure = Procedure::lbfgs;
  double lr = 1;                   // of the first trial step
  int history = 10;                // lbfgs: pairs of steps and gradient differences kept
  int evaluations = 25;            // most of one line search
  double change_tolerance = 1e-9;  // ends when steps or losses are smaller
};

// Sandblaster's coordinator (Dean and others 2012): L-BFGS or nonlinear conjugate gradients (Polak and Ribière,
// restarted where β < 0) over vectors that servers hold. It orders products and sums and sees numbers only: what
// travels between it and a server does not depend on the size of the model.
class ProcedureCoordinator {
 public:
  // Returns the loss at the servers' weights and leaves its gradient in kGradient. The loss must be one function for
  // the whole run: full batches, cut into portions that workers compute (Client::push_portion).
  using Evaluate = std::function<double()>;
  ProcedureCoordinator(Client& client, Evaluate evaluate, const CoordinatorOptions& options = {});

  // One iteration; false: nothing to gain any more.
  bool iterate();
  double loss() const { return loss_; }
  int evaluations() const { return evaluations_; }

 private:
  double evaluate();
  void find_direction();
  void find_lbfgs_direction();
  void find_cg_direction();
  void remember();
  int step_vector(int age) const;
  int change_vector(int age) const { return step_vector(age) + options_.history; }
  bool search();

  Client& client_;
  Evaluate evaluate_;
  CoordinatorOptions options_;
  int iterations_ = 0, evaluations_ = 0, kept_ = 0, newest_ = 0;
  double loss_ = 0, length_ = 0, scale_ = 1;
};

}  // namespace starling::dist::ps
