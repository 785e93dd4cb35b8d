#include "starling/ops/api/pad.h"

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/kernels/reference/moved.h"

namespace starling::kernels {
namespace {

// Element of x at position i of a padded axis; -1: the constant.
std::int64_t source_at(std::span<const op::PadRun> runs, std::int64_t i) {
  for (const auto& run : runs) {
    if (i >= run.begin && i < run.begin + run.count) {
      return run.constant ? -1 : run.source + (i - run.begin) * run.step;
    }
  }
  return -1;
}

std::unique_ptr<Plan> plan_pad(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::PadAttrs>();
  const ArgDesc in = request.in[0], out = request.out[0];
  std::vector<std::array<op::PadRun, 3>> runs;
  for (int i = 0; i < in.shape.rank(); ++i) runs.push_back(op::pad_runs(a, i, in.shape[i]));
  reference::Fill fill;
  reference::write<double>(in.dtype, fill.bytes.data(), 0, a.value);
  return make_plan([=](const Launch& launch) {
    reference::move_elements(out.shape, size_of(in.dtype), launch.in[0], fill.data(), launch.out[0],
                             [&](const reference::Index& index) {
                               std::int64_t at = 0;
                               for (int d = 0; d < in.shape.rank(); ++d) {
                                 const auto k = static_cast<std::size_t>(d);
                                 const std::int64_t from = source_at(runs[k], index[k]);
                                 if (from < 0) return std::int64_t{-1};
                                 at += from * in.strides[d];
                               }
                               return at;
                             });
  });
}

}  // namespace

void register_reference_pad(KernelTable& table) {
  table.add("pad", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_pad));
}

}  // namespace starling::kernels
