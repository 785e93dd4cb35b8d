#include "starling/kernels/cpu/index/strided_copy.h"

#include <cstring>

#include "starling/base/parallel.h"

namespace starling::kernels {

namespace {
constexpr std::int64_t kGrain = std::int64_t{1} << 19;
}

void parallel_zero(void* data, std::size_t bytes) {
  parallel_for(static_cast<std::int64_t>(bytes), kGrain, [&](std::int64_t begin, std::int64_t end) {
    std::memset(static_cast<std::byte*>(data) + begin, 0, static_cast<std::size_t>(end - begin));
  });
}

void parallel_copy(void* target, const void* source, std::size_t bytes) {
  if (target == source) return;
  parallel_for(static_cast<std::int64_t>(bytes), kGrain, [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(static_cast<std::byte*>(target) + begin, static_cast<const std::byte*>(source) + begin,
                static_cast<std::size_t>(end - begin));
  });
}

}  // namespace starling::kernels
