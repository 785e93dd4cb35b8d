#include "starling/ops/api/index.h"

#include "starling/kernels/cuda/stages.h"
#include "starling/ops/def/attrs/index.h"
#include "starling/ops/def/attrs/shape_ops.h"

namespace starling::kernels {
namespace {

// Reads along an axis by index. Device code cannot throw: an index out of range gives NaN, or the type's largest bits.
struct Axis {
  int axis;
  std::int64_t size;
};
Axis axis_of(const PlanRequest& request) {
  const Shape& shape = request.in[0].shape;
  const int axis = normalize_axis(request.attrs.as<op::AxisAttrs>().axis, shape.rank(), "index");
  return {axis, shape[axis]};
}

// Code for the offset of coordinates x0, x1, … with `at` in place of the axis.
std::string place_with(const Shape& shape, int axis) {
  const Shape strides = contiguous_strides(shape);
  std::string text = "0ll";
  for (int d = 0; d < shape.rank(); ++d)
    text += fmt::format(" + {} * {}ll", d == axis ? "at" : fmt::format("x{}", d), strides[d]);
  return text;
}

auto plan_read(bool row) {
  return [row](const PlanRequest& request) {
    const Axis a = axis_of(request);
    const std::string type = cuda::moved_type(request.in[0].dtype);
    const std::string body =
        fmt::format("  const long long at = a1[{}];\n  o0[i] = at >= 0 && at < {}ll ? a0[{}] : ({})-1;",
                    row ? fmt::format("x{}", a.axis) : "i", a.size, place_with(request.in[0].shape, a.axis), type);
    return cuda::plan_code({request.out[0].shape, {type, "long long"}, {type}, body, {}});
  };
}

// Adds or assigns: every element looks for the entries that name it, in their order, so that runs have the same bits.
std::unique_ptr<Plan> plan_write(const PlanRequest& request, bool row, bool add) {
  const char* value = cuda::c_type(request.in[0].dtype);
  if (add && !value) return nullptr;
  const Axis a = axis_of(request);
  const std::string type = add ? value : cuda::moved_type(request.in[0].dtype);
  const Shape &shape = request.out[0].shape, &src = request.in[2].shape;
  const Shape src_strides = contiguous_strides(src);
  std::string inside = "true", entry = fmt::format("e * {}ll", src_strides[a.axis]);
  for (int d = 0; d < shape.rank(); ++d) {
    if (d == a.axis) continue;
    entry += fmt::format(" + x{} * {}ll", d, src_strides[d]);
    if (src[d] < shape[d]) inside += fmt::format(" && x{} < {}ll", d, src[d]);
  }
  std::string index = "e";
  if (!row) {
    const Shape strides = contiguous_strides(request.in[1].shape);
    index = fmt::format("e * {}ll", strides[a.axis]);
    for (int d = 0; d < shape.rank(); ++d) {
      if (d != a.axis) index += fmt::format(" + x{} * {}ll", d, strides[d]);
    }
  }
  const std::string body = fmt::format(
      "  {0} total = a0[i];\n  if ({1}) {{\n    for (long long e = 0; e < {2}ll; ++e) {{\n"
      "      if (a1[{3}] == x{4}) total {5} a2[{6}];\n    }}\n  }}\n  o0[i] = total;",
      type, inside, src[a.axis], index, a.axis, add ? "+=" : "=", entry);
  return cuda::plan_code({shape, {type, "long long", type}, {type}, body, {}});
}

auto writer(bool row, bool add) {
  return [row, add](const PlanRequest& request) { return plan_write(request, row, add); };
}

std::unique_ptr<Plan> plan_one_hot(const PlanRequest& request) {
  const char* type = cuda::c_type(request.out[0].dtype);
  if (!type) return nullptr;
  const auto classes = request.attrs.as<op::OneHotAttrs>().classes;
  const std::string body = fmt::format("  o0[i] = a0[i / {0}ll] == i % {0}ll ? 1 : 0;", classes);
  return cuda::plan_code({request.out[0].shape, {"long long"}, {type}, body, {}});
}

}  // namespace

void register_cuda_index(KernelTable& table) {
  const auto add = [&](const char* op, auto plan) {
    table.add(op, DeviceKind::cuda, {"nvrtc", Accepts::contiguous, plan});
  };
  add("gather", plan_read(false));
  add("index_select", plan_read(true));
  add("scatter", writer(false, false));
  add("scatter_add", writer(false, true));
  add("index_add", writer(true, true));
  add("one_hot", plan_one_hot);
}

}  // namespace starling::kernels
