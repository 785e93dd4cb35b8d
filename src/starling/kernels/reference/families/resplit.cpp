#include "starling/ops/def/sharding/resplit.h"

#include "starling/base/bytes.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/kernels/reference/single_rank.h"
#include "starling/ops/def/attrs/shape_ops.h"

namespace starling::kernels {
namespace {

// On a single rank: what stays here of its piece, and zeros in place of what others would send, element by element.
std::unique_ptr<Plan> plan_resplit(const PlanRequest& request) {
  const op::ResplitAttrs a = op::with_size(request.attrs.as<op::ResplitAttrs>(), request.in[0].shape);
  const Shape in = request.in[0].shape, out = request.out[0].shape;
  const int rank = static_cast<int>(a.rank);
  const auto sent = op::intervals_sent(a, in, rank), received = op::intervals_received(a, out, rank);
  const std::size_t bytes = bytes_of(request.out[0]), element = size_of(request.in[0].dtype);
  const auto offsets = [](const Shape& shape, int dim, const std::vector<starling::Piece>& intervals) {
    std::vector<std::size_t> found;
    const std::int64_t outer = op::elements_before(shape, dim);
    const std::int64_t after = shape.numel() == 0 ? 0 : shape.numel() / outer / shape[dim];
    for (std::int64_t o = 0; o < outer; ++o) {
      for (const auto& one : intervals) {
        for (std::int64_t i = one.begin * after; i < (one.begin + one.size) * after; ++i)
          found.push_back(static_cast<std::size_t>(o * shape[dim] * after + i));
      }
    }
    return found;
  };
  return make_plan([=, from = offsets(in, static_cast<int>(a.to), sent),
                    to = offsets(out, static_cast<int>(a.from), received)](const Launch& launch) {
    reference::expect_alone(launch, "resplit");
    zero_bytes(launch.out[0], bytes);
    for (std::size_t i = 0; i < from.size(); ++i)
      copy_bytes(static_cast<std::byte*>(launch.out[0]) + to[i] * element,
                 static_cast<const std::byte*>(launch.in[0]) + from[i] * element, element);
  });
}

}  // namespace

void register_reference_resplit(KernelTable& table) {
  table.add("resplit", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_resplit));
}

}  // namespace starling::kernels
