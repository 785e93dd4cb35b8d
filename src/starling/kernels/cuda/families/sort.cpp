#include "starling/ops/api/sort.h"

#include "starling/kernels/cuda/code_names.h"
#include "starling/kernels/cuda/sorted_lines.h"
#include "starling/kernels/kernel_table.h"

namespace starling::kernels {
namespace {

using cuda::Lines;
using cuda::Pointer;
using cuda::SortedLines;

// Result element i of line o · inner + j is the one that the sort put there.
constexpr const char* kTake = R"(
  const long long j = i % INNER, rank = i / INNER % KEPT, o = i / INNER / KEPT;
  const long long at = (long long)a0[(o * INNER + j) * STRIDE + rank] % SIZE;
  INDEX[i] = at;
  VALUE
)";

cuda::Stage take_stage(const PlanRequest& request, const Lines& lines, std::int64_t kept, std::int64_t stride,
                       Pointer positions) {
  const bool values = request.out.size() == 2;
  const std::string moved = cuda::moved_type(request.in[0].dtype);
  cuda::CodeNames names;
  names.number("INNER", lines.inner).number("SIZE", lines.size).number("KEPT", kept).number("STRIDE", stride);
  names.expression("INDEX", values ? "o1" : "o0");
  names.expression("VALUE", values ? "o0[i] = a1[(o * SIZE + at) * INNER + j];" : "");
  cuda::ElementCode code{{lines.count() * kept}, {"unsigned", moved}, {}, kTake, names.text()};
  std::vector<Pointer> pointers{positions, {Pointer::Of::in, 0}};
  if (values) {
    code.out.push_back(moved);
    pointers.push_back({Pointer::Of::out, 0});
  }
  code.out.emplace_back("long long");
  pointers.push_back({Pointer::Of::out, values ? 1u : 0u});
  return cuda::code_stage(code, std::move(pointers));
}

std::unique_ptr<Plan> plan_lines(const PlanRequest& request, std::int64_t along, bool descending, std::int64_t kept) {
  const Shape& shape = request.in[0].shape;
  const Lines lines = Lines::along(shape, normalize_axis(along, shape.rank(), "sort"));
  auto sorted = SortedLines::plan(request.in[0].dtype, lines, descending, {Pointer::Of::in, 0});
  if (!sorted) return nullptr;
  const auto stage = take_stage(request, lines, kept, lines.size, sorted->positions());
  return cuda::plan_after(std::move(*sorted), {stage});
}

std::unique_ptr<Plan> plan_sort(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::SortAttrs>();
  const Shape& shape = request.in[0].shape;
  return plan_lines(request, a.axis, a.descending, shape[normalize_axis(a.axis, shape.rank(), "sort")]);
}

// Without order the k chosen positions, which name their line, too, are sorted themselves.
std::unique_ptr<Plan> plan_topk(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::TopkAttrs>();
  if (a.sorted) return plan_lines(request, a.axis, a.largest, a.k);
  const Shape& shape = request.in[0].shape;
  const Lines lines = Lines::along(shape, normalize_axis(a.axis, shape.rank(), "topk"));
  auto sorted = SortedLines::plan(request.in[0].dtype, lines, a.largest, {Pointer::Of::in, 0});
  if (!sorted) return nullptr;
  const std::int64_t chosen = lines.count() * a.k;
  const Pointer picked{Pointer::Of::scratch, sorted->scratch_bytes()};
  const auto end = picked.at + (static_cast<std::size_t>(chosen) * sizeof(unsigned) + 255) / 256 * 256;
  auto again = SortedLines::plan(DType::u32, {1, chosen, 1}, false, picked, end);
  if (!again) return nullptr;
  const std::string pick = fmt::format("  o0[i] = a0[i / {0}ll * {1}ll + i % {0}ll];", a.k, lines.size);
  std::shared_ptr<const Plan> first = cuda::plan_after(
      *sorted, {cuda::code_stage({{chosen}, {"unsigned"}, {"unsigned"}, pick, {}}, {sorted->positions(), picked})});
  // Sorted positions are places among the chosen ones.
  std::vector<cuda::Stage> stages{
      cuda::code_stage({{chosen}, {"unsigned", "unsigned"}, {"unsigned"}, "  o0[i] = a1[a0[i]];", {}},
                       {again->positions(), picked, sorted->positions()}),
      take_stage(request, lines, a.k, a.k, sorted->positions())};
  std::shared_ptr<const Plan> second = cuda::plan_after(*again, std::move(stages));
  return make_plan(second->scratch_bytes, [first, second](const Launch& launch) {
    first->run(launch);
    second->run(launch);
  });
}

}  // namespace

void register_cuda_sort(KernelTable& table) {
  table.add("sort", DeviceKind::cuda, {"radix", Accepts::contiguous, plan_sort});
  table.add("argsort", DeviceKind::cuda, {"radix", Accepts::contiguous, plan_sort});
  table.add("topk", DeviceKind::cuda, {"radix", Accepts::contiguous, plan_topk});
}

}  // namespace starling::kernels
