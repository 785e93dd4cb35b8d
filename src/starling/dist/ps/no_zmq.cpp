#include "starling/base/error.h"
#include "starling/dist/ps/wire.h"

namespace starling::dist::ps {

bool has_wire() { return false; }

std::shared_ptr<Wire> make_wire(const WireOptions&) {
  fail("[ps] expected a build with ZeroMQ (libzmq3-dev) for parameter servers, got one without");
}

}  // namespace starling::dist::ps
