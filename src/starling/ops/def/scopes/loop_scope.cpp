#include "starling/ops/def/scopes/loop_scope.h"

#include "starling/base/thread/thread_context.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/state.h"
#include "starling/ops/def/apply.h"

namespace starling {
namespace {

// Key increment per trip, different at each depth: trip 2 of trip 1 must not draw what trip 1 of trip 2 does. 31 bits,
// so that products with a number of trips do not overflow.
std::int64_t stride_of(int depth) {
  std::uint64_t z = 0x9E3779B97F4A7C15ull * static_cast<std::uint64_t>(depth + 1);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return static_cast<std::int64_t>((z ^ (z >> 31)) & 0x7FFFFFFF) | 1;
}

}  // namespace

TripScope::TripScope(Tensor trip) : trip_(std::move(trip)), outer_(thread_context().trip) {
  thread_context().trip = this;
}
TripScope::~TripScope() { thread_context().trip = outer_; }

bool in_loop() { return thread_context().trip != nullptr; }

OutsideLoops::OutsideLoops() : before_(thread_context().trip) { thread_context().trip = nullptr; }
OutsideLoops::~OutsideLoops() { thread_context().trip = before_; }

Tensor key_of_trip(const Tensor& key) {
  const NoGrad off;
  SmallVector<const TripScope*, 4> scopes;
  for (const TripScope* s = thread_context().trip; s; s = s->outer_) scopes.push_back(s);
  Tensor made = key;
  for (std::size_t i = scopes.size(); i-- > 0;) {
    const std::int64_t step[2] = {stride_of(static_cast<int>(scopes.size() - 1 - i)), 0};
    const Tensor strides = constant(to(from_host<std::int64_t>(step, {2}), key.device()));
    made = add(made, mul(strides, scopes[i]->trip_));
  }
  return made;
}

}  // namespace starling
