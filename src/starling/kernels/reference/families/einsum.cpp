#include "starling/ops/api/einsum.h"

#include <algorithm>

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/ops/def/einsum.h"

namespace starling::kernels {
namespace {

using reference::for_floats;

// Iterates over `labels` of the given sizes and calls f; the offsets of all operands are kept up to date.
struct Counter {
  const std::vector<std::int64_t>& sizes;
  const std::vector<std::vector<std::int64_t>>& strides;  // [operand][label]
  std::vector<std::int64_t>& at;                          // [operand]

  template <class F>
  void each(std::span<const int> labels, F&& f) {
    if (labels.empty()) return f();
    const auto label = static_cast<std::size_t>(labels[0]);
    for (std::int64_t i = 0; i < sizes[label]; ++i) {
      each(labels.subspan(1), f);
      for (std::size_t k = 0; k < at.size(); ++k) at[k] += strides[k][label];
    }
    for (std::size_t k = 0; k < at.size(); ++k) at[k] -= strides[k][label] * sizes[label];
  }
};

std::unique_ptr<Plan> plan_einsum(const PlanRequest& request) {
  std::vector<Shape> shapes;
  for (const auto& arg : request.in) shapes.push_back(arg.shape);
  const op::EinsumLabels labels = op::read_equation(request.attrs.as<op::EinsumAttrs>().equation.str(), shapes);
  std::vector<std::vector<std::int64_t>> strides;
  for (std::size_t i = 0; i < shapes.size(); ++i)
    strides.push_back(op::label_strides(labels.in[i], shapes[i], request.in[i].strides, labels.sizes));
  strides.push_back(op::label_strides(labels.out, request.out[0].shape, request.out[0].strides, labels.sizes));
  std::vector<int> kept, summed;
  for (int l = 0; l < static_cast<int>(labels.sizes.size()); ++l) {
    const bool has = std::find(labels.out.begin(), labels.out.end(), l) != labels.out.end();
    (has ? kept : summed).push_back(l);
  }
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=, sizes = labels.sizes, n = request.out[0].shape.numel()](const Launch& launch) {
      auto* y = static_cast<T*>(launch.out[0]);
      std::fill_n(y, n, T{0});
      if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return;
      std::vector<std::int64_t> at(strides.size());
      Counter counter{sizes, strides, at};
      counter.each(kept, [&] {
        double sum = 0;
        counter.each(summed, [&] {
          double product = 1;
          for (std::size_t k = 0; k + 1 < at.size(); ++k)
            product *= static_cast<double>(static_cast<const T*>(launch.in[k])[at[k]]);
          sum += product;
        });
        y[at.back()] = static_cast<T>(sum);
      });
    });
  });
}

}  // namespace

void register_reference_einsum(KernelTable& table) {
  table.add("einsum", DeviceKind::cpu, reference::kernel(Accepts::strided, plan_einsum));
}

}  // namespace starling::kernels
