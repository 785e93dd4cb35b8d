#include "starling/ops/api/sparse.h"

#include <algorithm>
#include <vector>

#include "starling/kernels/csr.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/ops/def/attrs/sparse.h"

namespace starling::kernels {
namespace {

using reference::for_floats;

std::unique_ptr<Plan> plan_matmul(const PlanRequest& request) {
  const auto& at = request.attrs.as<op::CsrAttrs>();
  const auto n = request.out[0].shape[1], size = request.out[0].shape.numel();
  const CsrPattern pattern = csr_pattern("csr_matmul", request, at.trans ? at.columns : request.in[3].shape[0]);
  return for_floats(request.in[2].dtype, [&]<class T>() {
    return make_plan([=, trans = at.trans](const Launch& launch) {
      pattern.check_values(launch);
      std::vector<double> sums(static_cast<std::size_t>(size));
      for (std::int64_t row = 0; row < pattern.rows; ++row) {
        for (auto e = pattern.offsets(launch)[row]; e < pattern.offsets(launch)[row + 1]; ++e) {
          const auto column = pattern.columns(launch)[e], to = trans ? column : row, from = trans ? row : column;
          for (std::int64_t j = 0; j < n; ++j) {
            sums[static_cast<std::size_t>(to * n + j)] +=
                static_cast<double>(static_cast<const T*>(launch.in[2])[e]) *
                static_cast<double>(static_cast<const T*>(launch.in[3])[from * n + j]);
          }
        }
      }
      for (std::int64_t i = 0; i < size; ++i)
        static_cast<T*>(launch.out[0])[i] = static_cast<T>(sums[static_cast<std::size_t>(i)]);
    });
  });
}

std::unique_ptr<Plan> plan_sample(const PlanRequest& request) {
  const auto n = request.in[2].shape[1];
  const CsrPattern pattern = csr_pattern("csr_sample", request, request.in[3].shape[0]);
  return for_floats(request.in[2].dtype, [&]<class T>() {
    return make_plan([=](const Launch& launch) {
      pattern.check_values(launch);
      std::fill_n(static_cast<T*>(launch.out[0]), pattern.count, T{0});
      for (std::int64_t row = 0; row < pattern.rows; ++row) {
        for (auto e = pattern.offsets(launch)[row]; e < pattern.offsets(launch)[row + 1]; ++e) {
          double sum = 0;
          for (std::int64_t j = 0; j < n; ++j) {
            sum += static_cast<double>(static_cast<const T*>(launch.in[2])[row * n + j]) *
                   static_cast<double>(static_cast<const T*>(launch.in[3])[pattern.columns(launch)[e] * n + j]);
          }
          static_cast<T*>(launch.out[0])[e] = static_cast<T>(sum);
        }
      }
    });
  });
}

}  // namespace

void register_reference_sparse(KernelTable& table) {
  table.add("csr_matmul", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_matmul));
  table.add("csr_sample", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_sample));
}

}  // namespace starling::kernels
