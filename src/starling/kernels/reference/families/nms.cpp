#include <algorithm>
#include <vector>

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/ops/api/vision.h"

namespace starling::kernels {
namespace {

using reference::for_floats;

std::unique_ptr<Plan> plan_nms(const PlanRequest& r) {
  const std::int64_t n = r.in[1].shape[0], room = r.out[0].shape[0];
  const double threshold = r.attrs.as<op::NmsAttrs>().iou_threshold;
  return for_floats(r.in[0].dtype, [&]<class T>() {
    return make_plan([=](const Launch& l) {
      const auto* boxes = static_cast<const T*>(l.in[0]);
      const auto* scores = static_cast<const T*>(l.in[1]);
      const auto kept =
          op::nms_kept(std::vector<double>(boxes, boxes + 4 * n), std::vector<double>(scores, scores + n), threshold);
      std::copy_n(kept.begin(), std::min(static_cast<std::int64_t>(kept.size()), room),
                  static_cast<std::int64_t*>(l.out[0]));
    });
  });
}

}  // namespace

void register_reference_nms(KernelTable& table) {
  table.add("nms", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_nms));
}

}  // namespace starling::kernels
