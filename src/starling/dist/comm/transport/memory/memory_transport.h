#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "starling/dist/comm/transport/transport.h"

namespace starling::dist {

// Emulated link between two ranks. 0 bytes per second: no limit.
struct MemoryLink {
  std::chrono::nanoseconds latency{0};
  double bytes_per_second = 0;
};

struct MemoryLinks {
  MemoryLink usual = {};
  std::map<std::pair<int, int>, MemoryLink> special = {};  // by (from, to)
  bool chain = false;  // links only between neighbours; a message passes every link on its way in turn
};

// Emulated network between threads of this process, for tests over transports: transfers copy straight from sender to
// receiver once both have arrived, and end when the emulated links would have delivered them.
class MemoryNetwork {
 public:
  virtual ~MemoryNetwork() = default;
  virtual std::shared_ptr<Transport> endpoint(int rank) = 0;     // once per rank; destroyed when the rank leaves
  virtual std::uint64_t link_bytes(int from, int to) const = 0;  // bytes carried by this link in this direction
  virtual std::uint64_t link_messages(int from, int to) const = 0;
};

std::shared_ptr<MemoryNetwork> make_memory_network(int size, const MemoryLinks& links = {});

}  // namespace starling::dist
