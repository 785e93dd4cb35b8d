#include <algorithm>
#include <cmath>

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/ops/def/attrs/margin_attrs.h"

namespace starling::kernels {
namespace {

using reference::for_floats;

template <class T>
double at(const void* data, std::int64_t i) {
  return static_cast<double>(static_cast<const T*>(data)[i]);
}

double above_zero(double x) { return x > 0 || std::isnan(x) ? x : 0; }

std::unique_ptr<Plan> plan_cosine(const PlanRequest& request) {
  const auto n = request.in[0].shape[0], d = request.in[0].shape[1];
  const double margin = request.attrs.as<op::CosineAttrs>().margin;
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=](const Launch& launch) {
      for (std::int64_t i = 0; i < n; ++i) {
        double aa = op::kCosineEps, bb = op::kCosineEps, ab = 0;
        for (std::int64_t j = i * d; j < (i + 1) * d; ++j) {
          const double a = at<T>(launch.in[0], j), b = at<T>(launch.in[1], j);
          aa += a * a;
          bb += b * b;
          ab += a * b;
        }
        const double cosine = ab / std::sqrt(aa * bb);
        const bool alike = static_cast<const std::int64_t*>(launch.in[2])[i] > 0;
        static_cast<T*>(launch.out[0])[i] = static_cast<T>(alike ? 1 - cosine : above_zero(cosine - margin));
      }
    });
  });
}

std::unique_ptr<Plan> plan_triplet(const PlanRequest& request) {
  const auto n = request.in[0].shape[0], d = request.in[0].shape[1];
  const auto attrs = request.attrs.as<op::TripletAttrs>();
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=](const Launch& launch) {
      for (std::int64_t i = 0; i < n; ++i) {
        double near = 0, far = 0;
        for (std::int64_t j = i * d; j < (i + 1) * d; ++j) {
          near += std::pow(at<T>(launch.in[0], j) - at<T>(launch.in[1], j) + attrs.eps, 2);
          far += std::pow(at<T>(launch.in[0], j) - at<T>(launch.in[2], j) + attrs.eps, 2);
        }
        static_cast<T*>(launch.out[0])[i] = static_cast<T>(above_zero(std::sqrt(near) - std::sqrt(far) + attrs.margin));
      }
    });
  });
}

}  // namespace

void register_reference_margin_loss(KernelTable& table) {
  table.add("cosine_embedding_loss", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_cosine));
  table.add("triplet_margin_loss", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_triplet));
}

}  // namespace starling::kernels
