#pragma once

#include <map>
#include <memory>

#include "starling/graph/placement/cut.h"
#include "starling/kernels/kernel_table.h"
#include "starling/runtime/placed/rendezvous.h"

namespace starling {

// Sends and receives of one placed program, which meet at its rendezvous.
class Transfers {
 public:
  explicit Transfers(const std::vector<GraphPart>& parts);

  // Plan for send, recv or release on a device; empty for other ops.
  Planned plan(const PlanRequest& request, Device device) const;
  Rendezvous& rendezvous() { return *rendezvous_; }
  int size() const { return static_cast<int>(slots_.size()); }

 private:
  std::size_t slot(Symbol key) const;
  std::unique_ptr<Plan> plan_send(const PlanRequest& request) const;
  std::unique_ptr<Plan> plan_recv(const PlanRequest& request, Device device) const;

  std::map<std::string, std::size_t> slots_;  // by key
  std::unique_ptr<Rendezvous> rendezvous_;
};

}  // namespace starling
