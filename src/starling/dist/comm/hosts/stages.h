#pragma once

#include <functional>
#include <string>
#include <vector>

#include "starling/dist/comm/comm.h"
#include "starling/dist/comm/hosts/layout.h"

namespace starling {

// The communicators that a HostsComm is made of. Each takes its calls in the order of the operations, so that all its
// ranks make them in the same order, however far each has come.
struct HostsLines {
  enum Line { inside, across, outside, flat, direct };  // direct: messages, in no order with the others
  std::unique_ptr<Comm> local, world;                   // as given; world carries what does not go by stages
  std::unique_ptr<Comm> before, after;                  // the ranks of this host: before and after the crossing
  // The crossing: ranks of equal place on their hosts; or the first of each host, null elsewhere.
  std::unique_ptr<Comm> cross;
};

struct Stage {
  HostsLines::Line line;
  std::function<Work()> start;
};

// An operation as stages, one after another, and what is to be done at the end.
struct Staged {
  std::vector<Stage> stages;
  std::function<void()> finish;
};

// What this rank does for a call. The lines outlive the result; the buffers are the call's.
Staged stages_of(const Call& call, const HostsLines& lines, const HostsLayout& layout, int world);

}  // namespace starling
