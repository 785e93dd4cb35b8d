#include "starling/kernels/cuda/bag_code.h"
#include "starling/kernels/kernel_table.h"

namespace starling::kernels {
namespace {

std::unique_ptr<Plan> plan_reduce(const PlanRequest& request) {
  auto code = cuda::BagCode::of(request, request.attrs.as<op::BagAttrs>());
  if (!code) return nullptr;
  const auto width = row_size(request.in[0].shape);
  code->names.number("WIDTH", width).expression("ROW", "e").expression("OUTSIDE", "false");
  return code->plan({code->bags.operands.bags, width}, {code->in[0]}, cuda::kAddUp);
}

// Every entry looks for its bag: the last one that begins at or before it.
constexpr const char* kSpread = R"(
  const long long e = x0;
  long long low = 0, high = BAGS - 1;
  while (low < high) {
    const long long middle = (low + high + 1) / 2;
    if (BEGIN(middle) <= e) low = middle; else high = middle - 1;
  }
  const double share = a1[e] == PADDING ? 0.0 : MEAN ? 1.0 / (double)count_of(a1, BEGIN(low), END(low)) : SCALE(e);
  o0[i] = share * (double)a0[low * WIDTH + x1];
)";

std::unique_ptr<Plan> plan_spread(const PlanRequest& request) {
  auto code = cuda::BagCode::of(request, request.attrs.as<op::BagAttrs>());
  if (!code) return nullptr;
  const auto width = row_size(request.in[0].shape);
  code->names.number("WIDTH", width);
  return code->plan({code->bags.operands.entries, width}, {code->in[0]}, kSpread);
}

// Every element of an entry's row looks for the values that were taken from it, in their order.
constexpr const char* kPlace = R"(
  T sum = 0;
  for (long long k = x1; k < COUNT; k += WIDTH) {
    if (a1[k] == x0) sum += a0[k];
  }
  o0[i] = sum;
)";

constexpr const char* kPick = R"(
  const long long from = a1[i];
  o0[i] = from == -1 ? T(0) : from < 0 || from >= ENTRIES ? (T)__longlong_as_double(-1) : a0[from * WIDTH + i % WIDTH];
)";

std::unique_ptr<Plan> plan_moved(const PlanRequest& request, std::int64_t entries, const Shape& shape,
                                 const char* body) {
  if (!cuda::is_plain_float(request.in[0].dtype)) return nullptr;
  const char* type = cuda::c_type(request.in[0].dtype);
  cuda::CodeNames names;
  names.number("WIDTH", row_size(request.in[0].shape)).number("ENTRIES", entries);
  names.number("COUNT", request.in[0].shape.numel()).type("T", request.in[0].dtype);
  return cuda::plan_code({shape, {type, "long long"}, {type}, body, names.text()});
}

std::unique_ptr<Plan> plan_place(const PlanRequest& request) {
  const auto entries = request.attrs.as<op::BagPlaceAttrs>().entries;
  return plan_moved(request, entries, {entries, row_size(request.in[0].shape)}, kPlace);
}

std::unique_ptr<Plan> plan_pick(const PlanRequest& request) {
  return plan_moved(request, request.in[0].shape[0], {request.in[1].shape.numel()}, kPick);
}

}  // namespace

void register_cuda_bags(KernelTable& table) {
  const auto add = [&](const char* op, auto plan) {
    table.add(op, DeviceKind::cuda, {"nvrtc", Accepts::contiguous, plan});
  };
  add("bag_reduce", plan_reduce);
  add("bag_spread", plan_spread);
  add("bag_place", plan_place);
  add("bag_pick", plan_pick);
}

}  // namespace starling::kernels
