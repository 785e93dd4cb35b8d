#include "starling/ops/api/embedding.h"

#include "starling/base/error.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/ops/def/attrs/embedding.h"
#include "starling/tensor/shape_parts.h"

namespace starling::kernels {
namespace {

using reference::for_floats;

std::int64_t checked(const std::int64_t* indices, std::int64_t i, std::int64_t rows) {
  check(indices[i] >= 0 && indices[i] < rows, "[embedding] expected indices in [0, {}), got {} at position {}", rows,
        indices[i], i);
  return indices[i];
}

std::unique_ptr<Plan> plan_embedding(const PlanRequest& request) {
  const auto n = request.in[0].shape.numel(), rows = request.in[1].shape[0], width = row_size(request.in[1].shape);
  return for_floats(request.in[1].dtype, [&]<class T>() {
    return make_plan([=](const Launch& launch) {
      const auto* indices = static_cast<const std::int64_t*>(launch.in[0]);
      for (std::int64_t i = 0; i < n; ++i) {
        const T* from = static_cast<const T*>(launch.in[1]) + checked(indices, i, rows) * width;
        for (std::int64_t j = 0; j < width; ++j) static_cast<T*>(launch.out[0])[i * width + j] = from[j];
      }
    });
  });
}

std::unique_ptr<Plan> plan_embedding_backward(const PlanRequest& request) {
  const auto a = request.attrs.as<op::EmbeddingBackwardAttrs>();
  const auto n = request.in[1].shape.numel(), width = row_size(request.out[0].shape);
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=](const Launch& launch) {
      const auto* dy = static_cast<const T*>(launch.in[0]);
      const auto* indices = static_cast<const std::int64_t*>(launch.in[1]);
      auto* out = static_cast<T*>(launch.out[0]);
      for (std::int64_t i = 0; i < a.rows * width; ++i) out[i] = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        const auto row = checked(indices, i, a.rows);
        if (row == a.padding) continue;
        for (std::int64_t j = 0; j < width; ++j) out[row * width + j] += dy[i * width + j];
      }
    });
  });
}

}  // namespace

void register_reference_embedding(KernelTable& table) {
  table.add("embedding", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_embedding));
  table.add("embedding_backward", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_embedding_backward));
}

}  // namespace starling::kernels
