#include "starling/tensor/allocator.h"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <mutex>
#include <vector>

#include "starling/base/error.h"
#include "starling/tensor/device_memory.h"
#include "starling/tensor/out_of_memory.h"

namespace starling {
namespace {

// Size classes: multiples of 64 bytes below 1 KiB, then an eighth of a power of two; at most 12.5 % is wasted.
std::size_t rounded_size(std::size_t bytes) {
  if (bytes <= 1024) return std::max<std::size_t>(64, (bytes + 63) / 64 * 64);
  const std::size_t step = std::bit_floor(bytes) / 8;
  return (bytes + step - 1) / step * step;
}

std::size_t size_class(std::size_t rounded) {
  if (rounded <= 1024) return rounded / 64 - 1;
  const auto power = static_cast<std::size_t>(std::bit_width(rounded) - 1);
  return 16 + (power - 10) * 8 + (rounded - (std::size_t{1} << power)) / (std::size_t{1} << (power - 3));
}

constexpr std::size_t kClasses = 16 + 54 * 8;

class CachingAllocator final : public Allocator {
 public:
  explicit CachingAllocator(Device device) : device_(device), memory_(device_memory(device.kind)) {}
  ~CachingAllocator() override { release_cached(); }

  void* allocate(std::size_t bytes) override {
    const std::size_t size = rounded_size(bytes);
    std::scoped_lock lock(mutex_);
    check_cap(size);
    void* data = take(size);
    stats_.allocations++;
    stats_.live_bytes += static_cast<std::int64_t>(size);
    stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.live_bytes);
    return data;
  }

  void deallocate(void* data, std::size_t bytes) override {
    const std::size_t size = rounded_size(bytes);
    std::scoped_lock lock(mutex_);
    free_[size_class(size)].push_back(data);
    stats_.live_bytes -= static_cast<std::int64_t>(size);
    stats_.cached_bytes += static_cast<std::int64_t>(size);
  }

  AllocatorStats stats() const override {
    std::scoped_lock lock(mutex_);
    return stats_;
  }

  void reset_peak() override {
    std::scoped_lock lock(mutex_);
    stats_.peak_bytes = stats_.live_bytes;
  }

  void set_cap(std::int64_t bytes) override {
    std::scoped_lock lock(mutex_);
    cap_ = bytes;
  }

  void release_cached() override {
    std::scoped_lock lock(mutex_);
    release_all();
  }

 private:
  void check_cap(std::size_t size) const {
    const auto wanted = stats_.live_bytes + static_cast<std::int64_t>(size);
    if (cap_ == 0 || wanted <= cap_) return;
    throw OutOfMemory(
        fmt::format("[allocator] expected to stay within the {} bytes allowed on {}, got a request for {} on top of {}",
                    cap_, to_string(device_), size, stats_.live_bytes));
  }

  void* take(std::size_t size) {
    auto& blocks = free_[size_class(size)];
    if (blocks.empty()) {
      stats_.system_allocations++;
      return memory_.allocate(size, device_.index);
    }
    void* data = blocks.back();
    blocks.pop_back();
    stats_.cached_bytes -= static_cast<std::int64_t>(size);
    return data;
  }

  void release_all() {
    for (std::size_t c = 0; c < kClasses; ++c) {
      for (void* data : free_[c]) memory_.free(data, 0, device_.index);
      free_[c].clear();
    }
    stats_.cached_bytes = 0;
  }

  Device device_;
  const DeviceMemory& memory_;
  mutable std::mutex mutex_;
  AllocatorStats stats_;
  std::int64_t cap_ = 0;
  std::array<std::vector<void*>, kClasses> free_;
};

class AllocatorSet {
 public:
  Allocator& of(Device device) {
    std::scoped_lock lock(mutex_);
    auto& slot = slots_[static_cast<std::size_t>(device.kind)][device.index];
    if (!slot) slot = std::make_unique<CachingAllocator>(device);
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
