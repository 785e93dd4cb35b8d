#include "starling/runtime/execution/state_stack.h"

#include <bit>
#include <cstring>

#include "starling/base/round_up.h"

namespace starling::runtime {

StateStack::StateStack(const std::vector<std::size_t>& bytes) : bytes_(bytes) {
  for (std::size_t size : bytes) {
    offsets_.push_back(stride_);
    stride_ += round_up(size);
  }
}

// Block b holds kFirst · 2^b trips; kFirst · (2^b - 1) come before it.
std::byte* StateStack::trip_at(std::int64_t trip) const {
  const auto block = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(trip / kFirst + 1)) - 1);
  const std::int64_t before = kFirst * ((std::int64_t{1} << block) - 1);
  return static_cast<std::byte*>(blocks_[block]->data()) + static_cast<std::size_t>(trip - before) * stride_;
}

void StateStack::push(void* const* states) {
  if (size_ == kFirst * ((std::int64_t{1} << blocks_.size()) - 1)) {
    const auto trips = static_cast<std::size_t>(kFirst) << blocks_.size();
    blocks_.push_back(Ref<Storage>(new Storage(kCpu, trips * stride_)));
  }
  std::byte* at = trip_at(size_++);
  for (std::size_t i = 0; i < bytes_.size(); ++i) {
    if (bytes_[i] > 0) std::memcpy(at + offsets_[i], states[i], bytes_[i]);
  }
}

void StateStack::point(std::int64_t trip, void** states) const {
  std::byte* at = trip_at(trip);
  for (std::size_t i = 0; i < bytes_.size(); ++i) states[i] = at + offsets_[i];
}

}  // namespace starling::runtime
