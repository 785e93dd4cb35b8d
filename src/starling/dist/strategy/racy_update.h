#pragma once

#include <cstdint>

#include "starling/tensor/dtype.h"

namespace starling {

// Looks between the load of a weight and its store; for tests.
struct RacyProbe {
  void (*between)(void* context) = nullptr;
  void* context = nullptr;
};

// Of one update of shared weights. v is null without momentum.
struct RacySgd {
  double lr = 0;
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool atomic = false;  // no update is lost, at the price of a locked instruction per element
  RacyProbe probe{};
};

// w[i] -= lr · g[i], with weight decay and momentum as in optim::Sgd, while other threads or processes do the same to
// the same memory. No locks: of two updates that meet at one element one may be lost, unless `atomic`. Elements whose
// gradient is 0 are left alone where nothing else moves them. f32 and f64. Returns how many elements were written.
//
// This is the only place where the ranks of Hogwild write what they share.
std::int64_t racy_sgd(const RacySgd& how, DType dtype, std::int64_t count, void* w, void* v, const void* g);

}  // namespace starling
