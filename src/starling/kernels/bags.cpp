#include "starling/kernels/bags.h"

#include "starling/base/error.h"

namespace starling::kernels {

Bags Bags::of(const PlanRequest& request) {
  Types types;
  for (const auto& in : request.in) types.push_back({in.dtype, in.shape});
  Bags bags{bag_operands(request.op, {types.data(), types.size()})};
  if (bags.operands.offsets < 0) bags.each = request.in[1].shape[1];
  return bags;
}

Bags::Bound Bags::bind(const Launch& launch, const char* who) const {
  const auto at = static_cast<std::size_t>(std::max(operands.offsets, 0));
  const auto* offsets = operands.offsets < 0 ? nullptr : static_cast<const std::int64_t*>(launch.in[at]);
  std::int64_t before = 0;
  for (std::int64_t i = 0; offsets && i < operands.bags; ++i) {
    const bool right = (i > 0 || offsets[i] == 0) && offsets[i] >= before && offsets[i] <= operands.entries;
    if (!right) [[unlikely]]
      fail("[{}] expected offsets that begin with 0 and rise to {} at most, got {} at position {}", who,
           operands.entries, offsets[i], i);
    before = offsets[i];
  }
  if (offsets && operands.bags == 0 && operands.entries > 0)
    fail("[{}] expected offsets for {} entries, got none", who, operands.entries);
  return {static_cast<const std::int64_t*>(launch.in[1]), offsets, each, operands.bags, operands.entries};
}

std::int64_t Bags::Bound::count(std::int64_t bag, std::int64_t padding) const {
  std::int64_t n = 0;
  for (std::int64_t i = begin(bag); i < end(bag); ++i) n += indices[i] != padding;
  return n;
}

}  // namespace starling::kernels
