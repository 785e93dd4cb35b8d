#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "starling/base/result.h"
#include "starling/tensor/tensor.h"

namespace starling::dist::ps {

// Vectors as long as all weights together, held in pieces beside the keys. A coordinator orders sums and products of
// them and sees numbers only: what it sends and gets does not depend on the size of the model. 0 are the weights.
enum class VectorOp : std::uint32_t {
  zero,     // a = 0; portions are counted anew
  copy,     // a = b
  scale,    // a = alpha · a
  axpy,     // a = a + alpha · b
  sum_abs,  // Σ |a|
  dot,      // Σ a · b
};
inline constexpr int kMostVectors = 1000;

// Vectors of one key; made of zeros when first named.
class KeyVectors {
 public:
  // The vector of this number; 0: `weights`, which must then be ready to be written to.
  Tensor at(int vector, const Tensor& weights);

  // Adds alpha · gradient to a vector unless this portion of the data has been added before; false: it has.
  bool add_portion(int vector, std::int64_t portion, double alpha, const Tensor& gradient);
  void forget_portions(int vector) { portions_.erase(vector); }

 private:
  std::map<int, Tensor> vectors_;
  std::map<int, std::set<std::int64_t>> portions_;
};

// Sums in double; a and b of one type, f32 or f64.
double vector_dot(const Tensor& a, const Tensor& b);
double vector_sum_abs(const Tensor& a);
void vector_axpy(const Tensor& a, double alpha, const Tensor& b);
void vector_scale(const Tensor& a, double alpha);

}  // namespace starling::dist::ps
