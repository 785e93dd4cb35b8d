#pragma once

#include <cstdint>
#include <list>
#include <memory>

#include "starling/dist/comm/gpu/device_reach.h"

namespace starling::dist {

// Allocations of other processes that this one has opened: the last ones used stay open.
class PeerMemory {
 public:
  explicit PeerMemory(std::shared_ptr<DeviceReach> reach) : reach_(std::move(reach)) {}
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  // Address here of another rank's buffer.
  std::byte* address(int rank, const ExportedMemory& memory);
  std::size_t open() const { return opened_.size(); }

  static constexpr std::size_t kMostOpen = 256;

 private:
  struct Opened {
    int rank;
    std::uint64_t allocation;
    void* data;
  };

  std::shared_ptr<DeviceReach> reach_;
  std::list<Opened> opened_;  // the last used first
};

}  // namespace starling::dist
