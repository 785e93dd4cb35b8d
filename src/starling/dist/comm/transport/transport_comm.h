#pragma once

#include <optional>

#include "starling/dist/comm/algorithms/choose.h"
#include "starling/dist/comm/transport/transport.h"

namespace starling::dist {

// Options of a transport communicator; must be equal on all ranks, else construction fails with a message.
struct TransportCommOptions {
  std::optional<LinkCosts> far = {};          // between hosts, or all links if hosts are unknown; unset: measured
  std::optional<LinkCosts> near = {};         // inside a host; unset: measured if hosts are known
  std::vector<int> hosts = {};                // by rank; empty: unknown
  bool chain = false;                         // ranks lie on a chain of links
  bool rank_ordered = false;                  // reduce in rank order only: bitwise equal to thread ranks
  std::map<CommOp, std::string> forced = {};  // algorithms by name
};

// Options that force all-reduces to the named algorithm (comm/algorithms); empty: the cheapest for each call.
TransportCommOptions reducing_by(const std::string& algorithm);

// Collective over all ranks of the transport; group.rank and group.size are the transport's.
std::unique_ptr<Comm> make_transport_comm(std::shared_ptr<Transport> transport, CommGroup group,
                                          const TransportCommOptions& options);

// Explanation of the algorithm a transport communicator chooses for a call, and of the alternatives. Empty for other
// communicators.
std::string explain(Comm& comm, CommOp op, std::int64_t count, DType dtype, ReduceOp reduce = ReduceOp::sum);

}  // namespace starling::dist
