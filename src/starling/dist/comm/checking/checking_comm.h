#pragma once

#include <memory>

#include "starling/dist/comm/comm.h"

namespace starling {

struct CheckingOptions {
  bool exchange_always = false;  // send fingerprints also where the backend compares calls itself
};

// Watches over any backend, and breaks the group with an error on every rank that says who called what.
//
// Calls that disagree: every call sends its fingerprint (sequence, op, dtype, count, reduction, root, name, epoch)
// through a second group beside the operation itself, and wait() compares all ranks' before it reports the operation as
// ended. The two travel at the same time, so the check costs latency only where the operation is smaller than the
// check. A backend that compares calls itself (checks_calls) is spared it.
//
// Calls that never meet: a rank that has waited for a moment tells the others what for, and looks at what they wait for
// (Comm::tell). Ranks that wait for each other, or for one that has left, are named long before their deadline; a rank
// that only computes is given time.
//
// Collective: all ranks wrap at once.
std::unique_ptr<Comm> make_checking(std::unique_ptr<Comm> inner);
std::unique_ptr<Comm> make_checking_with(std::unique_ptr<Comm> inner, const CheckingOptions& options);

}  // namespace starling
