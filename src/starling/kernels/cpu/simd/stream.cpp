#include "starling/kernels/cpu/simd/stream.h"

#include <cstdint>

#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/simd/stream.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace starling {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

void copy_streamed(void* to, const void* from, std::size_t bytes) {
  const hn::ScalableTag<std::uint64_t> d;
  auto* target = static_cast<std::uint64_t*>(to);
  const auto* source = static_cast<const std::uint64_t*>(from);
  const std::size_t count = bytes / sizeof(std::uint64_t);
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) hn::Stream(hn::LoadU(d, source + i), d, target + i);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace starling
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling {
namespace {
HWY_EXPORT(copy_streamed);
}  // namespace

void stream_copy(void* to, const void* from, std::size_t bytes) {
  HWY_DYNAMIC_DISPATCH(copy_streamed)(to, from, bytes);
}

void stream_end() { hwy::FlushStream(); }

}  // namespace starling
#endif
