#include "starling/dist/comm/shared/shared_arena.h"

#include <algorithm>

#include "starling/base/error.h"
#include "starling/dist/comm/shared/mapping.h"

namespace starling::dist {
namespace {

// Large blocks start on a huge-page boundary, so that they can be mapped by huge pages.
constexpr std::size_t kHuge = 2 << 20;

std::size_t rounded(std::size_t bytes) {
  const std::size_t step = bytes >= kHuge ? 4096 : 64;
  return std::max(step, (bytes + step - 1) / step * step);
}

std::size_t aligned(std::size_t offset, std::size_t size) {
  return size >= kHuge ? (offset + kHuge - 1) / kHuge * kHuge : offset;
}

}  // namespace

SharedArena::SharedArena(std::shared_ptr<Mapping> mapping, std::size_t begin, std::size_t bytes)
    : mapping_(std::move(mapping)), begin_(begin), end_(begin + bytes), high_(begin) {
  gaps_[begin] = bytes;
}

void* SharedArena::allocate(std::size_t bytes) { return take(bytes, true); }

void* SharedArena::allocate_untouched(std::size_t bytes) { return take(bytes, false); }

void* SharedArena::take(std::size_t bytes, bool with_pages) {
  const std::size_t size = rounded(bytes);
  std::scoped_lock lock(mutex_);
  const auto wanted = stats_.live_bytes + static_cast<std::int64_t>(size);
  check(cap_ == 0 || wanted <= cap_,
        "[shared] expected to stay within the {} bytes allowed in the shared arena, got a request for {} on top of {}",
        cap_, size, stats_.live_bytes);
  const auto gap = find_gap(size);
  check(
      gap != gaps_.end(),
      "[shared] expected {} bytes free in one piece in the shared arena of {}, got a request on top of {} in use: give "
      "the world more arena_bytes",
      size, end_ - begin_, stats_.live_bytes);
  const std::size_t offset = aligned(gap->first, size);
  if (with_pages && !mapping_->populate(offset, size)) {
    fail("[shared] expected {} bytes of memory from the system for the shared arena, got none", size);
  }
  cut(gap, offset, size);
  stats_.allocations++;
  stats_.live_bytes = wanted;
  stats_.peak_bytes = std::max(stats_.peak_bytes, wanted);
  return mapping_->data() + offset;
}

SharedArena::Gaps::iterator SharedArena::find_gap(std::size_t size) {
  return std::find_if(gaps_.begin(), gaps_.end(),
                      [&](const auto& gap) { return aligned(gap.first, size) + size <= gap.first + gap.second; });
}

void SharedArena::cut(Gaps::iterator gap, std::size_t offset, std::size_t size) {
  const std::size_t begin = gap->first, end = gap->first + gap->second;
  gaps_.erase(gap);
  if (begin < offset) gaps_[begin] = offset - begin;
  if (offset + size < end) gaps_[offset + size] = end - offset - size;
  high_ = std::max(high_, offset + size);
}

void SharedArena::deallocate(void* data, std::size_t bytes) {
  const std::size_t size = rounded(bytes);
  std::scoped_lock lock(mutex_);
  auto gap = gaps_.emplace(static_cast<std::size_t>(static_cast<std::byte*>(data) - mapping_->data()), size).first;
  if (const auto next = std::next(gap); next != gaps_.end() && gap->first + gap->second == next->first) {
    gap->second += next->second;
    gaps_.erase(next);
  }
  if (gap != gaps_.begin()) {
    const auto before = std::prev(gap);
    if (before->first + before->second == gap->first) {
      before->second += gap->second;
      gaps_.erase(gap);
    }
  }
  stats_.live_bytes -= static_cast<std::int64_t>(size);
}

AllocatorStats SharedArena::stats() const {
  std::scoped_lock lock(mutex_);
  AllocatorStats stats = stats_;
  stats.cached_bytes = static_cast<std::int64_t>(high_ - begin_) - stats.live_bytes;
  stats.system_allocations = 1;
  return stats;
}

void SharedArena::reset_peak() {
  std::scoped_lock lock(mutex_);
  stats_.peak_bytes = stats_.live_bytes;
}

void SharedArena::set_cap(std::int64_t bytes) {
  std::scoped_lock lock(mutex_);
  cap_ = bytes;
}

void SharedArena::release_cached() {
  std::scoped_lock lock(mutex_);
  for (const auto& [offset, size] : gaps_) {
    if (offset < high_) mapping_->release(offset, std::min(size, high_ - offset));
  }
}

bool SharedArena::holds(const void* data, std::size_t bytes) const {
  const auto at = reinterpret_cast<std::uintptr_t>(data);
  const auto base = reinterpret_cast<std::uintptr_t>(mapping_->data());
  return at >= base + begin_ && at + bytes <= base + end_;
}

}  // namespace starling::dist
