#pragma once

#include <cstdint>
#include <map>

#include "starling/base/result.h"
#include "starling/dist/ps/portion_set.h"
#include "starling/tensor/tensor.h"

namespace starling::dist::ps {

// Vectors as long as all weights together, held in pieces beside the keys. A coordinator orders sums and products of
// them and sees numbers only: what it sends and gets does not depend on the size of the model. 0 are the weights.
enum class VectorOp : std::uint32_t {
  zero,             // a = 0; portions are counted anew, and those before number alpha are refused from now on
  copy,             // a = b
  scale,            // a = alpha · a
  axpy,             // a = a + alpha · b
  pseudo_gradient,  // a = gradient of f + alpha · Σ |weights| where b is that of f; where two are possible, the smaller
  fill_zeros,       // a = b where a is 0
  project_orthant,  // a = 0 where its sign is not that of b
  sum_abs,          // Σ |a|
  dot,              // Σ a · b
};
inline constexpr int kMostVectors = 1000;

// Vectors of one key; made of zeros when first named.
class KeyVectors {
 public:
  // Vector by its number; 0: `weights`, which the caller has made ready to be written to.
  Tensor at(int vector, const Tensor& weights);

  // Adds alpha · gradient to a vector unless this portion of the data has been added before, or is of an earlier round;
  // false: it was not added.
  bool add_portion(int vector, std::int64_t portion, double alpha, const Tensor& gradient);
  // Begins a round, whose first portion has this number: portions of the round before that come late are refused.
  void forget_portions(int vector, std::int64_t first) { rounds_[vector] = {first, {}}; }
  void forget_rounds() { rounds_.clear(); }

 private:
  struct Round {
    std::int64_t first = 0;
    PortionSet added{};
  };
  std::map<int, Tensor> vectors_;
  std::map<int, Round> rounds_;
};

// Sums in double; a and b of one type, f32 or f64.
double vector_dot(const Tensor& a, const Tensor& b);
double vector_sum_abs(const Tensor& a);
void vector_axpy(const Tensor& a, double alpha, const Tensor& b);
void vector_scale(const Tensor& a, double alpha);
void vector_fill(const Tensor& a, double value);

// Parts of OWL-QN (Andrew and Gao 2007), elementwise. The pseudo-gradient of f + penalty · Σ |weights|, of f's
// gradient.
void vector_pseudo_gradient(const Tensor& a, double penalty, const Tensor& weights, const Tensor& gradient);
void vector_fill_zeros(const Tensor& a, const Tensor& b);
void vector_project_orthant(const Tensor& a, const Tensor& b);

}  // namespace starling::dist::ps
