#pragma once

#include <optional>

#include "starling/dist/comm/algorithms/choose.h"
#include "starling/dist/comm/transport/transport.h"

namespace starling {

// The same on all ranks; where they differ, making the communicator fails and says so.
struct TransportCommOptions {
  std::optional<LinkCosts> far = {};          // not given: measured; between hosts, or all when hosts are not known
  std::optional<LinkCosts> near = {};         // not given: measured where hosts are known
  std::vector<int> hosts = {};                // of each rank; empty: not known
  bool chain = false;                         // ranks lie on a chain of links
  bool rank_ordered = false;                  // reduce in rank order only: the same bits as ranks that are threads
  std::map<CommOp, std::string> forced = {};  // algorithms by name
};

// All-reduces by the algorithm of that name (comm/algorithms); empty: whichever is cheapest, call by call.
TransportCommOptions reducing_by(const std::string& algorithm);

// Collective over all ranks of the transport; group.rank and group.size are the transport's.
std::unique_ptr<Comm> make_transport_comm(std::shared_ptr<Transport> transport, CommGroup group,
                                          const TransportCommOptions& options);

// What a communicator made so would run for a call, why, and what else there was. Empty for other communicators.
std::string explain(Comm& comm, CommOp op, std::int64_t count, DType dtype, CommReduce reduce = CommReduce::sum);

}  // namespace starling
