#include "starling/ops/api/embedding.h"

#include <cstring>

#include "starling/base/parallel.h"
#include "starling/kernels/cpu/index/row_order.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/ops/def/attrs/embedding.h"

namespace starling::kernels {
namespace {

constexpr std::int64_t kGrain = 32768;  // elements worth a thread

std::int64_t rows_per_thread(std::int64_t width) {
  return std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(width, 1));
}

std::unique_ptr<Plan> plan_embedding(const PlanRequest& request) {
  const auto n = request.in[0].shape.numel(), rows = request.in[1].shape[0];
  const auto bytes = static_cast<std::size_t>(row_size(request.in[1].shape)) * size_of(request.in[1].dtype);
  const auto grain = rows_per_thread(row_size(request.in[1].shape));
  return make_plan([=](const Launch& launch) {
    const auto* indices = static_cast<const std::int64_t*>(launch.in[0]);
    check_indices(indices, n, rows, "embedding");
    if (bytes == 0) return;
    const auto* table = static_cast<const std::byte*>(launch.in[1]);
    auto* out = static_cast<std::byte*>(launch.out[0]);
    parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        if (i + kAhead < end)
          prefetch_row(table + static_cast<std::size_t>(indices[i + kAhead]) * bytes, static_cast<std::int64_t>(bytes));
        std::memcpy(out + static_cast<std::size_t>(i) * bytes, table + static_cast<std::size_t>(indices[i]) * bytes,
                    bytes);
      }
    });
  });
}

// Gradient of the table: every thread owns a range of rows and scans all indices for them. No two threads write one
// row, and terms are added in the order of the indices.
std::unique_ptr<Plan> plan_embedding_backward(const PlanRequest& request) {
  const auto a = request.attrs.as<op::EmbeddingBackwardAttrs>();
  const auto n = request.in[1].shape.numel(), width = row_size(request.out[0].shape);
  return reference::for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=, add = RowAdd<T>(width), grain = rows_per_thread(width)](const Launch& launch) {
      const auto* dy = static_cast<const T*>(launch.in[0]);
      const auto* indices = static_cast<const std::int64_t*>(launch.in[1]);
      auto* out = static_cast<T*>(launch.out[0]);
      check_indices(indices, n, a.rows, "embedding");
      if (width == 0) return;
      parallel_for(a.rows, grain, [&](std::int64_t begin, std::int64_t end) {
        std::memset(out + begin * width, 0, static_cast<std::size_t>((end - begin) * width) * sizeof(T));
        for (std::int64_t i = 0; i < n; ++i) {
          const auto row = indices[i];
          if (row >= begin && row < end && row != a.padding) add(out + row * width, dy + i * width);
        }
      });
    });
  });
}

}  // namespace

void register_cpu_embedding(KernelTable& table) {
  table.add("embedding", DeviceKind::cpu, {"rows", Accepts::contiguous, plan_embedding});
  table.add("embedding_backward", DeviceKind::cpu, {"rows", Accepts::contiguous, plan_embedding_backward});
}

}  // namespace starling::kernels
