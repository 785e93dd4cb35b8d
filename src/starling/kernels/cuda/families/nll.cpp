#include "starling/kernels/cuda/stages.h"
#include "starling/ops/api/loss.h"
#include "starling/ops/def/attrs/loss.h"
#include "starling/ops/def/attrs/nll_attrs.h"

namespace starling::kernels {
namespace {

// Positions of x [n, classes, d...] that labels [n, d...] name. A label out of range gives NaN: device code cannot
// throw.
struct Labels {
  std::int64_t classes, inner = 1, count, ignored;
  Labels(const Shape& x, std::int64_t ignore) : classes(x[1]), ignored(ignore) {
    for (int i = 2; i < x.rank(); ++i) inner *= x[i];
    count = x[0] * inner;
  }
};

std::unique_ptr<Plan> plan_pick(const PlanRequest& request) {
  const char* type = cuda::c_type(request.in[0].dtype);
  const Labels l(request.in[0].shape, request.attrs.as<op::NllAttrs>().ignore_index);
  if (!type || request.in[0].dtype == DType::f64) return nullptr;
  const std::string body = fmt::format(
      "  const long long label = a1[i];\n  o0[i] = label == {0}ll ? 0 : label < 0 || label >= {1}ll ? "
      "__int_as_float(-1) : a0[(i / {2}ll * {1}ll + label) * {2}ll + i % {2}ll];",
      l.ignored, l.classes, l.inner);
  return cuda::plan_code({request.out[0].shape, {type, "long long"}, {type}, body, {}});
}

std::unique_ptr<Plan> plan_place(const PlanRequest& request) {
  const char* type = cuda::c_type(request.in[0].dtype);
  const Labels l(request.out[0].shape, request.attrs.as<op::LabelPlaceAttrs>().ignore_index);
  if (!type) return nullptr;
  const std::string body = fmt::format(
      "  const long long at = i / {0}ll / {1}ll * {0}ll + i % {0}ll, label = a1[at];\n"
      "  o0[i] = label != {2}ll && label == i / {0}ll % {1}ll ? a0[at] : 0;",
      l.inner, l.classes, l.ignored);
  return cuda::plan_code({request.out[0].shape, {type, "long long"}, {type}, body, {}});
}

// One thread per term, then two sums.
std::unique_ptr<Plan> plan_nll(const PlanRequest& request) {
  if (request.in[0].dtype != DType::f32) return nullptr;
  using cuda::Pointer;
  const Labels l(request.in[0].shape, request.attrs.as<op::NllAttrs>().ignore_index);
  const bool weighted = request.in.size() == 3;
  const std::size_t bytes = (static_cast<std::size_t>(l.count) * sizeof(float) + 255) / 256 * 256;
  const std::string body = fmt::format(
      "  const long long label = a1[i];\n  const bool left = label == {0}ll, known = label >= 0 && label < {1}ll;\n"
      "  const float w = left ? 0.f : !known ? __int_as_float(-1) : {3};\n"
      "  o0[i] = left ? 0.f : known ? -w * a0[(i / {2}ll * {1}ll + label) * {2}ll + i % {2}ll] : w;\n  o1[i] = w;",
      l.ignored, l.classes, l.inner, weighted ? "a2[label]" : "1.f");
  cuda::ElementCode code{{l.count}, {"float", "long long"}, {"float", "float"}, body, {}};
  std::vector<Pointer> pointers{{Pointer::Of::in, 0}, {Pointer::Of::in, 1}};
  if (weighted) {
    code.in.emplace_back("float");
    pointers.push_back({Pointer::Of::in, 2});
  }
  pointers.push_back({Pointer::Of::scratch, 0});
  pointers.push_back({Pointer::Of::scratch, bytes});
  std::vector<cuda::Stage> stages{cuda::code_stage(code, std::move(pointers))};
  for (std::size_t i : {0, 1}) {
    const cuda::ChainFold sum{
        {{l.count}, {{DType::f32, {1}}}, {{"a", {0}, DType::f32, {}}}, {1}}, {0}, cuda::Fold::sum};
    stages.push_back(cuda::fold_stage(sum, {{Pointer::Of::scratch, i * bytes}, {Pointer::Of::out, i}}));
  }
  return cuda::plan_stages(std::move(stages), 2 * bytes);
}

}  // namespace

void register_cuda_nll(KernelTable& table) {
  table.add("nll", DeviceKind::cuda, {"nvrtc", Accepts::contiguous, plan_nll});
  table.add("label_pick", DeviceKind::cuda, {"nvrtc", Accepts::contiguous, plan_pick});
  table.add("label_place", DeviceKind::cuda, {"nvrtc", Accepts::contiguous, plan_place});
}

}  // namespace starling::kernels
