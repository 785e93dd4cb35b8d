#pragma once

#include <cstdint>

#include "starling/tensor/dtype.h"

namespace starling::dist {

// Test hook, called between the load of a weight and its store.
struct RacyProbe {
  void (*between)(void* context) = nullptr;
  void* context = nullptr;
};

// Parameters of one update of shared weights.
struct RacySgd {
  double lr = 0;
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool atomic = false;  // no update is lost, at the cost of a locked instruction per element
  RacyProbe probe{};
};

// w[i] -= lr · g[i], with weight decay and momentum as in optim::Sgd, while other threads or processes do the same to
// the same memory; v is null without momentum. No locks: of two concurrent updates of one element one may be lost,
// unless `atomic`. Elements with a zero gradient are skipped if nothing else moves them. f32 and f64. Returns the
// number of elements written.
//
// The only place where the ranks of Hogwild write shared memory.
std::int64_t racy_sgd(const RacySgd& how, DType dtype, std::int64_t count, void* w, void* v, const void* g);

}  // namespace starling::dist
