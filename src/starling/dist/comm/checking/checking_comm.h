#pragma once

#include <memory>

#include "starling/dist/comm/comm.h"

namespace starling::dist {

struct CheckingOptions {
  bool exchange_always = false;  // send fingerprints also where the backend compares calls itself
};

// Decorator that detects mismatched and deadlocked calls of any backend. It breaks the group with an error on every
// rank that says who called what.
//
// Mismatched calls: every call sends its fingerprint (sequence, op, dtype, count, reduction, root, name, epoch) through
// a second group beside the operation itself, and wait() compares those of all ranks before it reports the operation as
// ended. The two overlap, so the check costs latency only where the operation is smaller than the check. Skipped if the
// backend compares calls itself (checks_calls).
//
// Deadlocks: a rank that has waited for a moment publishes what it waits for and reads what the others wait for
// (Comm::tell). Ranks that wait for each other, or for one that has left, are named long before their deadline; a rank
// that is merely computing is given time.
//
// Collective: all ranks wrap at once.
std::unique_ptr<Comm> make_checking(std::unique_ptr<Comm> inner);
std::unique_ptr<Comm> make_checking_with(std::unique_ptr<Comm> inner, const CheckingOptions& options);

}  // namespace starling::dist
