#pragma once

#include <memory>

#include "starling/dist/comm/comm.h"

namespace starling {

// Watches over any backend: every call sends its fingerprint (sequence, op, dtype, count, reduction, root, name, epoch)
// through a second group beside the operation itself, and wait() compares all ranks' before it reports the operation as
// ended. The two travel at the same time, so the check costs latency only where the operation is smaller than the
// check. Ranks that disagree break the group, and the error on every rank says who called what. Collective: all ranks
// wrap at once.
std::unique_ptr<Comm> make_checking(std::unique_ptr<Comm> inner);

}  // namespace starling
