#pragma once

#include <map>
#include <memory>

#include "starling/graph/placement/cut.h"
#include "starling/kernels/kernel_table.h"
#include "starling/runtime/placed/rendezvous.h"

namespace starling::runtime {

// Sends and receives of one placed program, which meet at its rendezvous.
class Transfers {
 public:
  explicit Transfers(const std::vector<graph::GraphPart>& parts);

  // Plan for send, recv or release on a device; empty for other ops.
  kernels::Planned plan(const kernels::PlanRequest& request, Device device) const;
  Rendezvous& rendezvous() { return *rendezvous_; }
  int size() const { return static_cast<int>(slots_.size()); }

 private:
  std::size_t slot(Symbol key) const;
  std::unique_ptr<kernels::Plan> plan_send(const kernels::PlanRequest& request) const;
  std::unique_ptr<kernels::Plan> plan_recv(const kernels::PlanRequest& request, Device device) const;

  std::map<std::string, std::size_t> slots_;  // by key
  std::unique_ptr<Rendezvous> rendezvous_;
};

}  // namespace starling::runtime
