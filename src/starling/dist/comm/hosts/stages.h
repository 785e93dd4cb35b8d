#pragma once

#include <functional>
#include <string>
#include <vector>

#include "starling/dist/comm/comm.h"
#include "starling/dist/comm/hosts/host_map.h"

namespace starling::dist {

// Communicators that a HostsComm is made of. Each receives its calls in the order of the operations, so that all its
// ranks make them in the same order, however far each has progressed.
struct HostsLines {
  enum Line { inside, across, outside, flat, direct };  // direct: messages, in order for each peer and direction
  std::unique_ptr<Comm> local, world;                   // as given; world carries operations without stages
  std::unique_ptr<Comm> before, after;                  // ranks of this host: before and after the crossing
  // Exchange across hosts: ranks of equal local rank; or the first rank of each host, null elsewhere.
  std::unique_ptr<Comm> cross;
};

struct Stage {
  HostsLines::Line line;
  std::function<Work()> start;
};

// Operation as consecutive stages, with a final action.
struct Staged {
  std::vector<Stage> stages;
  std::function<void()> finish;
};

// Stages of this rank for a call. `lines` must outlive the result; the buffers are the call's.
Staged stages_of(const Call& call, const HostsLines& lines, const HostMap& hosts, int world);

}  // namespace starling::dist
