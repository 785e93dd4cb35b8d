#include "starling/ops/def/comm_world.h"

#include "starling/base/thread_context.h"

namespace starling {

const CommWorld& current_world() {
  static constexpr CommWorld kAlone;
  const CommWorld* innermost = thread_context().world;
  return innermost ? *innermost : kAlone;
}

WorldScope::WorldScope(const CommWorld& world) : world_(world), before_(thread_context().world) {
  thread_context().world = &world_;
}
WorldScope::~WorldScope() { thread_context().world = before_; }

}  // namespace starling
