#include "starling/dist/comm/gpu/peer_memory.h"

#include <algorithm>

namespace starling::dist {

PeerMemory::~PeerMemory() {
  reach_->drain();
  for (const Opened& one : opened_) reach_->close(one.data);
}

std::byte* PeerMemory::address(int rank, const ExportedMemory& memory) {
  const auto found = std::find_if(opened_.begin(), opened_.end(), [&](const Opened& one) {
    return one.rank == rank && one.allocation == memory.allocation;
  });
  if (found != opened_.end()) {
    opened_.splice(opened_.begin(), opened_, found);
  } else {
    if (opened_.size() == kMostOpen) {
      reach_->drain();  // work under way may still read it
      reach_->close(opened_.back().data);
      opened_.pop_back();
    }
    opened_.push_front({rank, memory.allocation, reach_->open(memory)});
  }
  return static_cast<std::byte*>(opened_.front().data) + memory.offset;
}

}  // namespace starling::dist
