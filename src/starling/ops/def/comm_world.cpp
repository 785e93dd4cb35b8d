#include "starling/ops/def/comm_world.h"

namespace starling {
namespace {

thread_local CommWorld now;

}  // namespace

const CommWorld& current_world() { return now; }

WorldScope::WorldScope(const CommWorld& world) : before_(now) { now = world; }
WorldScope::~WorldScope() { now = before_; }

}  // namespace starling
