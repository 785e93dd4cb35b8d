#include "starling/ops/api/random.h"

#include <limits>

#include "starling/kernels/cuda/device/random.h"
#include "starling/kernels/cuda/stream.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/uniform_bound.h"
#include "starling/ops/def/attrs/random.h"

namespace starling::kernels {
namespace {

using cuda::input;
using cuda::output;
using device::Draw;
using device::Random;

// Elements of a piece by their global index.
Random drawn_piece(const Shape& shape, const Shape& global, const Shape& offset, std::int64_t site) {
  Random random{};
  const Shape strides = contiguous_strides(global.empty() ? shape : global);
  random.n = shape.numel();
  random.rank = shape.rank();
  for (int d = 0; d < shape.rank(); ++d) {
    random.size[d] = shape[d];
    random.stride[d] = strides[d];
  }
  for (int d = 0; d < offset.rank(); ++d) random.first += static_cast<unsigned long long>(offset[d] * strides[d]);
  random.site = static_cast<unsigned long long>(site);
  return random;
}

std::unique_ptr<Plan> plan_draw(const Random& random, std::size_t key) {
  if (random.n == 0) return make_plan([](const Launch&) {});
  check_cuda(device::load_random(), "loading a kernel");
  return make_plan([random, key](const Launch& launch) {
    const float* x = random.draw == Draw::dropout ? input<float>(launch, 0) : nullptr;
    check_cuda(device::launch_random(random, input<long long>(launch, key), x, output<float>(launch, 0),
                                     cuda::stream_of(launch)),
               "launching a kernel");
  });
}

auto planner(Draw draw) {
  return [draw](const PlanRequest& request) -> std::unique_ptr<Plan> {
    const auto& a = request.attrs.as<op::RandomAttrs>();
    if (a.dtype != DType::f32) return nullptr;
    Random random = drawn_piece(a.shape, a.global, a.offset, a.site);
    random.draw = draw;
    random.shift = static_cast<float>(a.a);
    random.scale = static_cast<float>(draw == Draw::uniform ? a.b - a.a : a.b);
    const bool is_range = draw == Draw::uniform;
    random.most =
        is_range ? static_cast<float>(largest_below(a.dtype, a.a, a.b)) : std::numeric_limits<float>::infinity();
    return plan_draw(random, 0);
  };
}

std::unique_ptr<Plan> plan_dropout(const PlanRequest& request) {
  if (request.in[0].dtype != DType::f32) return nullptr;
  const auto& a = request.attrs.as<op::DropoutAttrs>();
  Random random = drawn_piece(request.in[0].shape, a.global, a.offset, a.site);
  random.draw = Draw::dropout;
  random.keep = a.keep;
  return plan_draw(random, 1);
}

}  // namespace

void register_cuda_random(KernelTable& table) {
  table.add("uniform", DeviceKind::cuda, {"philox", Accepts::contiguous, planner(Draw::uniform)});
  table.add("normal", DeviceKind::cuda, {"philox", Accepts::contiguous, planner(Draw::normal)});
  table.add("dropout", DeviceKind::cuda, {"philox", Accepts::contiguous, plan_dropout});
}

}  // namespace starling::kernels
