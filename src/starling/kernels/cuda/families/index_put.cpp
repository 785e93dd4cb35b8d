#include "starling/kernels/cuda/stages.h"
#include "starling/ops/api/index.h"
#include "starling/ops/def/attrs/index.h"

namespace starling::kernels {
namespace {

// Rows of x (its dimensions after the indexed axes) selected by index tensors, operands `first` on.
struct Rows {
  Shape sizes{};           // of the indexed axes
  std::int64_t count = 0;  // of index elements
  std::int64_t row = 1;    // elements of a row
  std::size_t first = 1;

  // Code that sets `place` to the row of entry `e`; -1 if an index is out of range.
  std::string code() const {
    std::string text = "long long place = 0;";
    for (int d = 0; d < sizes.rank(); ++d)
      text += fmt::format(
          " {{ const long long v = a{0}[e]; place = place < 0 || v < -{1}ll || v >= {1}ll ? -1 : place * {1}ll + (v < "
          "0 ? v "
          "+ {1}ll : v); }}",
          first + static_cast<std::size_t>(d), sizes[d]);
    return text;
  }
  std::vector<std::string> types(const std::string& value, std::size_t operands) const {
    std::vector<std::string> all(operands, "long long");
    for (std::size_t i = 0; i < first; ++i) all[i] = value;
    return all;
  }
};

Rows rows_of(const PlanRequest& request, std::size_t first) {
  Rows rows{{}, request.in[first].shape.numel(), 1, first};
  const Shape& x = request.in[0].shape;
  const int axes = static_cast<int>(request.in.size() - first);
  for (int i = 0; i < x.rank(); ++i) {
    if (i < axes)
      rows.sizes.push_back(x[i]);
    else
      rows.row *= x[i];
  }
  return rows;
}

// An index out of range gives NaN (all bits set): device code cannot throw.
std::unique_ptr<Plan> plan_get(const PlanRequest& request, const Rows& rows) {
  const std::string type = cuda::moved_type(request.in[0].dtype);
  const std::string body =
      fmt::format("  const long long e = x0; {}\n  o0[i] = place < 0 ? ({})-1 : a0[place * {}ll + x1];", rows.code(),
                  type, rows.row);
  return cuda::plan_code({{rows.count, rows.row}, rows.types(type, request.in.size()), {type}, body, {}});
}

// Every element looks for the entries that name its row, in their order.
std::unique_ptr<Plan> plan_put(const PlanRequest& request) {
  const bool adds = request.attrs.as<op::IndexPutAttrs>().accumulate;
  const char* value = cuda::c_type(request.in[0].dtype);
  if (adds && !value) return nullptr;
  const Rows rows = rows_of(request, 2);
  const std::string type = adds ? value : cuda::moved_type(request.in[0].dtype);
  const std::string body = fmt::format(
      "  {} total = a0[i];\n  for (long long e = 0; e < {}ll; ++e) {{\n    {}\n    if (place == x0) total {} a1[e * "
      "{}ll + x1];\n  }}\n  o0[i] = total;",
      type, rows.count, rows.code(), adds ? "+=" : "=", rows.row);
  const std::int64_t all = rows.sizes.numel();
  return cuda::plan_code({{all, rows.row}, rows.types(type, request.in.size()), {type}, body, {}});
}

}  // namespace

void register_cuda_index_put(KernelTable& table) {
  const auto add = [&](const char* op, auto plan) {
    table.add(op, DeviceKind::cuda, {"nvrtc", Accepts::contiguous, plan});
  };
  add("index_get", [](const PlanRequest& r) { return plan_get(r, rows_of(r, 1)); });
  add("index_put", plan_put);
  add("take", [](const PlanRequest& r) { return plan_get(r, {{r.in[0].shape.numel()}, r.in[1].shape.numel(), 1, 1}); });
}

}  // namespace starling::kernels
