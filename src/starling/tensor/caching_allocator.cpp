#include "starling/tensor/caching_allocator.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <mutex>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "starling/base/error.h"
#include "starling/base/error_text.h"
#include "starling/base/thread/thread_context.h"
#include "starling/tensor/memory_label.h"
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

// Larger blocks of a GPU are rounded to so many bytes alone: an eighth of them could be gigabytes.
constexpr std::size_t kLarge = std::size_t{256} << 20, kLargeStep = std::size_t{2} << 20;

// Smaller blocks are not recorded: they are many, hold little, and should cost nothing.
constexpr std::size_t kLeastRecorded = std::size_t{64} << 10;

std::string in_words(std::int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes < (1 << 20)) return fmt::format("{} bytes", bytes);
  return bytes < (1 << 30) ? fmt::format("{:.1f} MiB", value / (1 << 20))
                           : fmt::format("{:.2f} GiB", value / (1 << 30));
}

// Sums of what is held, by what allocated it and in which scope.
class Holders {
 public:
  void add(void* data, std::int64_t bytes) {
    const Key key{MemoryLabel::current(), thread_context().scope};
    blocks_[data] = key;
    auto& sum = sums_[key];
    sum.bytes += bytes;
    ++sum.blocks;
  }
  void remove(void* data, std::int64_t bytes) {
    const auto block = blocks_.find(data);
    if (block == blocks_.end()) return;
    const auto sum = sums_.find(block->second);
    sum->second.bytes -= bytes;
    if (--sum->second.blocks == 0) sums_.erase(sum);
    blocks_.erase(block);
  }
  // Largest first; equal ones by name.
  std::vector<MemoryHolder> list() const {
    std::vector<MemoryHolder> all;
    for (const auto& [key, sum] : sums_)
      all.push_back({key.first, key.second ? *key.second : "", sum.bytes, sum.blocks});
    std::sort(all.begin(), all.end(), [](const MemoryHolder& a, const MemoryHolder& b) {
      return std::tie(b.bytes, a.what, a.scope) < std::tie(a.bytes, b.what, b.scope);
    });
    return all;
  }

 private:
  using Key = std::pair<const char*, const std::string*>;  // label and scope, both kept for the life of the process
  struct Sum {
    std::int64_t bytes = 0, blocks = 0;
  };
  std::unordered_map<void*, Key> blocks_;
  std::map<Key, Sum> sums_;
};

class CachingAllocator final : public Allocator {
 public:
  CachingAllocator(Device device, const DeviceMemory& memory, bool records)
      : device_(device), memory_(memory), records_(records) {}
  ~CachingAllocator() override { release_cached(); }

  void* allocate(std::size_t bytes) override {
    const std::size_t size = size_for(bytes);
    std::scoped_lock lock(mutex_);
    check_cap(size);
    void* data = take(size);
    stats_.allocations++;
    stats_.live_bytes += static_cast<std::int64_t>(size);
    stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.live_bytes);
    if (records_ && size >= kLeastRecorded) holders_.add(data, static_cast<std::int64_t>(size));
    return data;
  }

  void deallocate(void* data, std::size_t bytes) override {
    const std::size_t size = size_for(bytes);
    std::scoped_lock lock(mutex_);
    if (records_ && size >= kLeastRecorded) holders_.remove(data, static_cast<std::int64_t>(size));
    free_blocks(size).push_back(data);
    stats_.live_bytes -= static_cast<std::int64_t>(size);
    stats_.cached_bytes += static_cast<std::int64_t>(size);
  }

  AllocatorStats stats() const override {
    std::scoped_lock lock(mutex_);
    return stats_;
  }

  std::vector<MemoryHolder> holders() const override {
    std::scoped_lock lock(mutex_);
    return holders_.list();
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
  bool is_large(std::size_t bytes) const { return records_ && bytes > kLarge; }
  std::size_t size_for(std::size_t bytes) const {
    return is_large(bytes) ? (bytes + kLargeStep - 1) / kLargeStep * kLargeStep : rounded_size(bytes);
  }
  std::vector<void*>& free_blocks(std::size_t size) { return is_large(size) ? large_[size] : free_[size_class(size)]; }

  void check_cap(std::size_t size) const {
    const auto wanted = stats_.live_bytes + static_cast<std::int64_t>(size);
    if (cap_ == 0 || wanted <= cap_) return;
    throw OutOfMemory(
        fmt::format("[allocator] expected to stay within the {} bytes allowed on {}, got a request for {} on top of {}",
                    cap_, to_string(device_), size, stats_.live_bytes) +
        largest_holders());
  }

  void* take(std::size_t size) {
    auto& blocks = free_blocks(size);
    if (blocks.empty()) return fresh(size);
    void* data = blocks.back();
    blocks.pop_back();
    stats_.cached_bytes -= static_cast<std::int64_t>(size);
    return data;
  }

  void* fresh(std::size_t size) {
    stats_.system_allocations++;
    // Freed blocks of other sizes count, too: a cap is for what the device has to give.
    const bool crowded = cap_ > 0 && stats_.live_bytes + stats_.cached_bytes + static_cast<std::int64_t>(size) > cap_;
    if (crowded) release_all();
    const std::int64_t returned = stats_.cached_bytes;
    try {
      return memory_.allocate(size, device_.index);
    } catch (const OutOfMemory&) {
      if (returned == 0 && !records_) throw;
    }
    release_all();
    try {
      return memory_.allocate(size, device_.index);
    } catch (const OutOfMemory& error) {
      throw OutOfMemory(fmt::format("{}; tensors hold {}, and {} of freed ones were given back before{}",
                                    without_rank(error.what()), in_words(stats_.live_bytes), in_words(returned),
                                    largest_holders()));
    }
  }

  std::string largest_holders() const {
    constexpr std::size_t kTold = 5;
    std::string text;
    const auto all = holders_.list();
    for (std::size_t i = 0; i < std::min(kTold, all.size()); ++i) {
      const MemoryHolder& holder = all[i];
      text += fmt::format("{} {} by {}{} ({})", i == 0 ? "; largest holders:" : ",", in_words(holder.bytes),
                          holder.what, holder.scope.empty() ? "" : " in " + holder.scope, holder.blocks);
    }
    return text;
  }

  void release_all() {
    for (std::size_t c = 0; c < kClasses; ++c) {
      for (void* data : free_[c]) memory_.free(data, 0, device_.index);
      free_[c].clear();
    }
    for (const auto& [size, blocks] : large_) {
      for (void* data : blocks) memory_.free(data, 0, device_.index);
    }
    large_.clear();
    stats_.cached_bytes = 0;
  }

  Device device_;
  const DeviceMemory& memory_;
  bool records_;
  mutable std::mutex mutex_;
  AllocatorStats stats_;
  std::int64_t cap_ = 0;
  std::array<std::vector<void*>, kClasses> free_;
  std::map<std::size_t, std::vector<void*>> large_;
  Holders holders_;
};

}  // namespace

std::unique_ptr<Allocator> make_caching_allocator(Device device, const DeviceMemory& memory, bool records) {
  return std::make_unique<CachingAllocator>(device, memory, records);
}

}  // namespace starling
