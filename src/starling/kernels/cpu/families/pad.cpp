#include "starling/ops/api/pad.h"

#include <vector>

#include "starling/kernels/cpu/index/strided_copy.h"
#include "starling/kernels/cpu/simd/cast.h"
#include "starling/kernels/kernel_table.h"

namespace starling::kernels {
namespace {

// Padded tensor as a few boxes, each a strided copy of a part of x or of the constant.
struct Box {
  PlannedCopy copy;
  bool constant = false;
};

class Boxes {
 public:
  explicit Boxes(const PlanRequest& request) : in_(request.in[0]), out_(request.out[0]) {
    for (int i = 0; i < in_.shape.rank(); ++i)
      runs_.push_back(op::pad_runs(request.attrs.as<op::PadAttrs>(), i, in_.shape[i]));
    cut(0, {{out_.shape, in_.strides, out_.strides, 0, 0, element_bytes(in_.dtype)}});
  }
  std::vector<Box> take() { return std::move(boxes_); }

 private:
  // Splits one axis after another; a constant part spans the axes that follow.
  void cut(int axis, const Box& box) {
    if (axis == in_.shape.rank()) {
      boxes_.push_back(box);
      return;
    }
    for (const op::PadRun& run : runs_[static_cast<std::size_t>(axis)]) {
      if (run.count == 0) continue;
      Box part = box;
      part.copy.shape[axis] = run.count;
      part.copy.target_offset += run.begin * out_.strides[axis];
      part.copy.source_offset += run.source * in_.strides[axis];
      part.copy.source_strides[axis] = in_.strides[axis] * run.step;
      if (run.constant) {
        part.constant = true;
        part.copy.source_offset = 0;
        part.copy.source_strides = Shape::filled(in_.shape.rank(), 0);
        boxes_.push_back(part);
      } else {
        cut(axis + 1, part);
      }
    }
  }

  ArgDesc in_, out_;
  std::vector<std::array<op::PadRun, 3>> runs_;
  std::vector<Box> boxes_;
};

std::unique_ptr<Plan> plan_pad(const PlanRequest& request) {
  std::array<std::byte, 8> fill{};
  cast_array(DType::f64, &request.attrs.as<op::PadAttrs>().value, request.in[0].dtype, fill.data(), 1);
  return make_plan([fill, boxes = Boxes(request).take()](const Launch& launch) {
    for (const auto& box : boxes) box.copy.run(box.constant ? fill.data() : launch.in[0], launch.out[0]);
  });
}

}  // namespace

void register_cpu_pad(KernelTable& table) { table.add("pad", DeviceKind::cpu, {"boxes", Accepts::strided, plan_pad}); }

}  // namespace starling::kernels
