#include "starling/tensor/allocator.h"

#include <array>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "starling/tensor/caching_allocator.h"
#include "starling/tensor/memory_limit.h"

namespace starling {
namespace {

// Holders of memory are recorded on GPUs: there it is short, and an allocation costs more than the record.
std::unique_ptr<Allocator> make_allocator(Device device) {
  auto made = make_caching_allocator(device, device_memory(device.kind), device.kind == DeviceKind::cuda);
  const char* limit = device.kind == DeviceKind::cuda ? std::getenv(kGpuMemoryVariable) : nullptr;
  if (limit) made->set_cap(gpu_memory_limit(limit, device.index));
  return made;
}

class AllocatorSet {
 public:
  Allocator& of(Device device) {
    std::scoped_lock lock(mutex_);
    auto& slot = slots_[static_cast<std::size_t>(device.kind)][device.index];
    if (!slot) slot = make_allocator(device);
    return *slot;
  }

 private:
  std::mutex mutex_;
  std::array<std::array<std::unique_ptr<Allocator>, 256>, 3> slots_;
};

}  // namespace

Allocator& allocator(Device device) {
  // Never destroyed: tensors held by other statics may be released during static destruction.
  static auto* set = new AllocatorSet;
  if (device == kCpu) {
    static Allocator& cpu = set->of(kCpu);
    return cpu;
  }
  return set->of(device);
}

}  // namespace starling
