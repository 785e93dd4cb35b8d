#include "starling/ops/api/rearrange.h"

#include <algorithm>
#include <vector>

#include "starling/kernels/cpu/index/strided_copy.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/def/attrs/rearrange.h"

namespace starling::kernels {
namespace {

std::unique_ptr<Plan> plan_copies(std::vector<PlannedCopy> copies) {
  return make_plan([copies = std::move(copies)](const Launch& launch) {
    for (const auto& copy : copies) copy.run(launch.in[0], launch.out[0]);
  });
}

// Tiling: each tiled axis is two loops, over repetitions and over elements. Loops beyond the rank of a copy are
// unrolled.
class Tiles {
 public:
  explicit Tiles(const PlanRequest& request) {
    const ArgDesc &in = request.in[0], &out = request.out[0];
    const int rank = out.shape.rank(), extra = rank - in.shape.rank();
    const Shape reps = op::tile_reps(request.attrs.as<op::TileAttrs>().reps, rank);
    PlannedCopy copy;
    copy.element = element_bytes(in.dtype);
    for (int i = 0; i < rank; ++i) {
      const auto size = i < extra ? 1 : in.shape[i - extra];
      const auto stride = i < extra ? 0 : in.strides[i - extra];
      if (reps[i] != 1) repeated_.push_back({reps[i], size * out.strides[i]});
      if (size == 1) continue;
      copy.shape.push_back(size);
      copy.source_strides.push_back(stride);
      copy.target_strides.push_back(out.strides[i]);
    }
    std::sort(repeated_.begin(), repeated_.end(), [](const auto& a, const auto& b) { return a.count < b.count; });
    unroll(copy, 0);
  }
  std::vector<PlannedCopy> take() { return std::move(copies_); }

 private:
  struct Repeated {
    std::int64_t count;
    std::int64_t stride;  // in the target
  };

  void unroll(PlannedCopy copy, std::size_t axis) {
    const auto left = static_cast<int>(repeated_.size() - axis);
    if (copy.shape.rank() + left <= kMaxRank) {
      for (; axis < repeated_.size(); ++axis) {
        copy.shape.push_back(repeated_[axis].count);
        copy.source_strides.push_back(0);
        copy.target_strides.push_back(repeated_[axis].stride);
      }
      copies_.push_back(copy);
      return;
    }
    for (std::int64_t r = 0; r < repeated_[axis].count; ++r) {
      unroll(copy, axis + 1);
      copy.target_offset += repeated_[axis].stride;
    }
  }

  std::vector<Repeated> repeated_;
  std::vector<PlannedCopy> copies_;
};

std::unique_ptr<Plan> plan_tile(const PlanRequest& request) {
  if (request.out[0].shape.numel() == 0) return plan_copies({});
  return plan_copies(Tiles(request).take());
}

std::unique_ptr<Plan> plan_repeat(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::RepeatAttrs>();
  const ArgDesc &in = request.in[0], &out = request.out[0];
  const int axis = normalize_axis(a.axis, in.shape.rank(), "repeat");
  if (in.shape.rank() == kMaxRank) return nullptr;
  if (out.shape.numel() == 0) return plan_copies({});
  PlannedCopy copy{in.shape, in.strides, out.strides, 0, 0, element_bytes(in.dtype)};
  copy.target_strides[axis] *= a.repeats;
  copy.shape.insert(axis + 1, a.repeats);
  copy.source_strides.insert(axis + 1, 0);
  copy.target_strides.insert(axis + 1, out.strides[axis]);
  return plan_copies({copy});
}

std::unique_ptr<Plan> plan_flip(const PlanRequest& request) {
  const ArgDesc &in = request.in[0], &out = request.out[0];
  PlannedCopy copy{in.shape, in.strides, out.strides, 0, 0, element_bytes(in.dtype)};
  for (auto given : request.attrs.as<op::FlipAttrs>().axes) {
    const int axis = normalize_axis(given, in.shape.rank(), "flip");
    copy.source_offset += (std::max<std::int64_t>(in.shape[axis], 1) - 1) * in.strides[axis];
    copy.source_strides[axis] *= -1;
  }
  return plan_copies({copy});
}

// Roll: each rolled axis is two pieces that change places.
void roll_axis(std::vector<PlannedCopy>& copies, int axis, const ArgDesc& in, const ArgDesc& out, std::int64_t by) {
  std::vector<PlannedCopy> cut;
  const std::int64_t rest = in.shape[axis] - by;
  for (const auto& copy : copies) {
    PlannedCopy head = copy, tail = copy;
    head.shape[axis] = rest;
    head.target_offset += by * out.strides[axis];
    tail.shape[axis] = by;
    tail.source_offset += rest * in.strides[axis];
    cut.push_back(head);
    cut.push_back(tail);
  }
  copies = std::move(cut);
}

std::unique_ptr<Plan> plan_roll(const PlanRequest& request) {
  const ArgDesc &in = request.in[0], &out = request.out[0];
  const Shape by = op::rolled_by(request.attrs.as<op::RollAttrs>(), in.shape);
  std::vector<PlannedCopy> copies = {{in.shape, in.strides, out.strides, 0, 0, element_bytes(in.dtype)}};
  for (int i = 0; i < in.shape.rank(); ++i) {
    if (by[i] > 0) roll_axis(copies, i, in, out, by[i]);
  }
  return plan_copies(std::move(copies));
}

}  // namespace

void register_cpu_rearrange(KernelTable& table) {
  table.add("tile", DeviceKind::cpu, {"copy", Accepts::strided, plan_tile});
  table.add("repeat", DeviceKind::cpu, {"copy", Accepts::strided, plan_repeat});
  table.add("flip", DeviceKind::cpu, {"copy", Accepts::strided, plan_flip});
  table.add("roll", DeviceKind::cpu, {"copy", Accepts::strided, plan_roll});
}

}  // namespace starling::kernels
