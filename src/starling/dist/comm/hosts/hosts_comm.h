#pragma once

#include <memory>
#include <vector>

#include "starling/dist/comm/comm.h"

namespace starling::dist {

// Hierarchical communicator: ranks on several hosts as one world, with minimal traffic between hosts.
//   local     the ranks of this host, in the order of their world ranks (comm/shared, or threads)
//   world     all ranks, over what connects the hosts (Gloo, MPI, any Comm); its rank, size, label and epoch are those
//             of the result
//   host_of   by world rank: the number of its host, from 0
// Sums are reduced inside each host, then across hosts, then distributed inside. If all hosts have equally many ranks,
// every rank carries its own share across, else the first rank of each host carries all. Messages between ranks of one
// host stay there. A failure of either communicator breaks both. Collective: all ranks call it.
std::unique_ptr<Comm> make_hosts_comm(std::unique_ptr<Comm> local, std::unique_ptr<Comm> world,
                                      std::vector<int> host_of);

}  // namespace starling::dist
