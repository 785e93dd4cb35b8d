#pragma once

#include <functional>
#include <string>

#include "starling/dist/ps/client.h"

namespace starling::dist::ps {

// Vectors of a coordinator's procedures, by their numbers on the servers; pairs of L-BFGS follow. kSteepest and
// kOrthant are used by OWL-QN alone.
struct CoordinatorVectors {
  static constexpr int kWeights = 0, kGradient = 1, kBefore = 2, kDirection = 3, kFrom = 4, kSteepest = 5, kOrthant = 6,
                       kPairs = 7;
};

struct CoordinatorOptions {
  enum class Procedure { lbfgs, cg, owlqn };
  Procedure procedure = Procedure::lbfgs;
  double lr = 1;                   // of the first trial step
  double l1 = 0;                   // owlqn: l1 · Σ |weights| is added to the loss
  int history = 10;                // lbfgs, owlqn: pairs of steps and gradient differences kept
  int evaluations = 25;            // most of one line search
  double change_tolerance = 1e-9;  // ends when steps or losses are smaller
};

// Sandblaster's coordinator (Dean and others 2012): L-BFGS, nonlinear conjugate gradients (Polak and Ribière, restarted
// where β < 0 or the direction does not lead down) or OWL-QN (Andrew and Gao 2007: L-BFGS of a loss with an l1 penalty,
// which makes exact zeros) over vectors that servers hold. It orders products and sums and sees numbers only: what
// travels between it and a server does not depend on the size of the model.
class ProcedureCoordinator {
 public:
  // Returns the loss at the servers' weights and leaves its gradient in kGradient. The loss must be one function for
  // the whole run: full batches, cut into portions that workers compute (Client::push_portion). At a trial point it may
  // be infinite, whatever the gradient: that point is not taken.
  using Evaluate = std::function<double()>;
  ProcedureCoordinator(Client& client, Evaluate evaluate, const CoordinatorOptions& options = {});

  // Makes one iteration: a direction, and steps along it until the loss is low enough. False: the weights are at a
  // minimum, as far as the tolerance tells.
  bool iterate();
  // Puts the weights back to where an iteration began that `evaluate` has left by an exception; none follows it.
  void go_back();
  double loss() const { return loss_; }  // with the penalty
  int evaluations() const { return evaluations_; }
  // Number of steps s along which the gradient did not grow, yᵀs <= 0: such pairs say nothing of a minimum and are not
  // kept.
  int pairs_refused() const { return pairs_refused_; }

 private:
  bool sparse() const { return options_.procedure == CoordinatorOptions::Procedure::owlqn; }
  bool keeps_pairs() const { return options_.procedure != CoordinatorOptions::Procedure::cg; }
  double evaluate();
  double evaluate_at(double t);
  double first_length() const;
  void find_direction();
  void find_steepest();
  void find_lbfgs_direction();
  void find_cg_direction();
  void remember();
  int step_vector(int age) const;
  int change_vector(int age) const { return step_vector(age) + options_.history; }
  void restart();
  bool search();
  bool search_orthant();

  Client& client_;
  Evaluate evaluate_;
  CoordinatorOptions options_;
  int iterations_ = 0, evaluations_ = 0, kept_ = 0, newest_ = 0, pairs_refused_ = 0;
  double loss_ = 0, length_ = 0, scale_ = 1;
};

}  // namespace starling::dist::ps
