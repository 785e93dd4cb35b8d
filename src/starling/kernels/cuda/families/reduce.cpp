#include "starling/ops/api/reduce.h"

#include <algorithm>

#include "starling/kernels/cuda/device/column_norm.h"
#include "starling/kernels/cuda/device/reduce.h"
#include "starling/kernels/cuda/stages.h"
#include "starling/kernels/cuda/storage.h"
#include "starling/kernels/cuda/stream.h"
#include "starling/kernels/cuda/term_walk.h"
#include "starling/kernels/kernel_table.h"

namespace starling::kernels {
namespace {

using device::Reduce;
using device::ReduceAny;
using device::Reduction;

constexpr std::int64_t kFewTerms = 32;

struct Kind {
  Reduction reduction;
  bool mean;
};

float scale_of(const PlanRequest& request, Kind kind) {
  const auto outputs = request.out[0].shape.numel();
  return kind.mean && outputs > 0 ? 1.f / static_cast<float>(request.in[0].shape.numel() / outputs) : 1.f;
}

// True if the axes are adjacent: x is [outer, terms, inner] then.
bool are_neighbours(const Shape& axes) {
  for (int i = 1; i < axes.rank(); ++i) {
    if (axes[i] != axes[i - 1] + 1) return false;
  }
  return true;
}

// Two reductions, one of the other's results.
std::unique_ptr<Plan> plan_twice(const Reduce& first, const Reduce& second) {
  const long long between = first.outer * first.inner;
  const long long pieces = std::max(device::reduce_pieces(first), device::reduce_pieces(second));
  check_cuda(device::load_reduce(), "loading a kernel");
  return make_plan(static_cast<std::size_t>(between + pieces) * sizeof(float), [=](const Launch& launch) {
    auto* scratch = static_cast<float*>(launch.scratch);
    check_cuda(device::launch_reduce(first, cuda::input<float>(launch, 0), scratch, scratch + between,
                                     cuda::stream_of(launch)),
               "launching a reduction");
    check_cuda(device::launch_reduce(second, scratch, cuda::output<float>(launch, 0), scratch + between,
                                     cuda::stream_of(launch)),
               "launching a reduction");
  });
}

// Parts into which few long columns are cut, so that they fill the device; 1: not at all.
long long parts_of(const Reduce& reduce) {
  constexpr long long kParts = 16, kLong = 256, kColumns = 1 << 13;
  const bool few = reduce.inner > 1 && reduce.outer * reduce.inner <= kColumns;
  return few && reduce.terms >= kLong && reduce.terms % kParts == 0 ? kParts : 1;
}

std::unique_ptr<Plan> plan_neighbours(const PlanRequest& request, const Shape& axes, Kind kind) {
  const Shape& shape = request.in[0].shape;
  Reduce reduce{1, 1, 1, kind.reduction, scale_of(request, kind)};
  for (int d = 0; d < shape.rank(); ++d)
    (d < axes[0] ? reduce.outer : d > axes.back() ? reduce.inner : reduce.terms) *= shape[d];
  if (const long long parts = parts_of(reduce); parts > 1) {
    return plan_twice({reduce.outer * parts, reduce.terms / parts, reduce.inner, reduce.reduction, 1.f},
                      {reduce.outer, parts, reduce.inner, reduce.reduction, reduce.scale});
  }
  check_cuda(device::load_reduce(), "loading a kernel");
  return make_plan(
      static_cast<std::size_t>(device::reduce_pieces(reduce)) * sizeof(float), [reduce](const Launch& launch) {
        check_cuda(device::launch_reduce(reduce, cuda::input<float>(launch, 0), cuda::output<float>(launch, 0),
                                         static_cast<float*>(launch.scratch), cuda::stream_of(launch)),
                   "launching a reduction");
      });
}

// True if the axes are the first ones and the last ones: x is [outer, kept, terms] then, as for sums by channel.
bool are_ends(const Shape& axes, int rank, int& first_kept, int& end_kept) {
  first_kept = 0;
  while (first_kept < axes.rank() && axes[first_kept] == first_kept) ++first_kept;
  end_kept = first_kept + rank - axes.rank();
  for (int i = first_kept; i < axes.rank(); ++i) {
    if (axes[i] != end_kept + i - first_kept) return false;
  }
  return true;
}

// The last axes first, then the first ones.
std::unique_ptr<Plan> plan_ends(const PlanRequest& request, int first_kept, int end_kept, Kind kind) {
  const Shape& shape = request.in[0].shape;
  long long outer = 1, kept = 1, terms = 1;
  for (int d = 0; d < shape.rank(); ++d) (d < first_kept ? outer : d < end_kept ? kept : terms) *= shape[d];
  return plan_twice({outer * kept, terms, 1, kind.reduction, 1.f},
                    {1, outer, kept, kind.reduction, scale_of(request, kind)});
}

std::unique_ptr<Plan> plan_any(const PlanRequest& request, const Shape& axes, Kind kind) {
  const Shape& shape = request.in[0].shape;
  ReduceAny reduce{};
  reduce.outputs = request.out[0].shape.numel();
  reduce.terms = shape.numel() / reduce.outputs;
  reduce.reduction = kind.reduction;
  reduce.scale = scale_of(request, kind);
  for (int d = 0; d < shape.rank(); ++d) {
    const bool reduced = std::find(axes.begin(), axes.end(), d) != axes.end();
    int& rank = reduced ? reduce.reduced_rank : reduce.kept_rank;
    (reduced ? reduce.reduced_size : reduce.kept_size)[rank] = shape[d];
    (reduced ? reduce.reduced_stride : reduce.kept_stride)[rank] = request.in[0].strides[d];
    ++rank;
  }
  check_cuda(device::load_reduce_any(), "loading a kernel");
  return make_plan([reduce](const Launch& launch) {
    check_cuda(device::launch_reduce_any(reduce, cuda::input<float>(launch, 0), cuda::output<float>(launch, 0),
                                         cuda::stream_of(launch)),
               "launching a reduction");
  });
}

auto planner(Kind kind) {
  return [kind](const PlanRequest& request) -> std::unique_ptr<Plan> {
    if (!cuda::all_f32(request.in) || !cuda::all_f32(request.out)) return nullptr;
    if (request.out[0].shape.numel() == 0) return make_plan([](const Launch&) {});
    const Shape axes = op::reduced_axes(request.attrs.as<op::ReduceAttrs>().axes, request.in[0].shape.rank(), "reduce");
    if (axes.empty()) return plan_neighbours(request, {0}, kind);  // a scalar
    if (are_neighbours(axes)) return plan_neighbours(request, axes, kind);
    int first_kept = 0, end_kept = 0;
    if (are_ends(axes, request.in[0].shape.rank(), first_kept, end_kept))
      return plan_ends(request, first_kept, end_kept, kind);
    // One thread per result is for few terms each; many are folded by a block per result.
    const std::int64_t terms = request.in[0].shape.numel() / request.out[0].shape.numel();
    return terms < kFewTerms ? plan_any(request, axes, kind) : nullptr;
  };
}

// Sums over all axes but the channels of images with channels last, or over the first axes: columns of [rows,
// channels].
std::optional<device::ColumnNorm> columns_of(const ArgDesc& x, const Shape& axes) {
  constexpr long long kLeastRows = 256;
  const int rank = x.shape.rank();
  std::int64_t channels = 1;
  if (is_channels_last(x)) {
    if (axes != Shape{0, 2, 3}) return std::nullopt;
    channels = x.shape[1];
  } else {
    if (!x.contiguous() || axes.empty() || axes.rank() == rank) return std::nullopt;
    for (int i = 0; i < axes.rank(); ++i) {
      if (axes[i] != i) return std::nullopt;
    }
    for (int d = axes.rank(); d < rank; ++d) channels *= x.shape[d];
  }
  const std::int64_t rows = channels > 0 ? x.shape.numel() / channels : 0;
  if (rows < kLeastRows || !device::takes_columns(rows, channels)) return std::nullopt;
  return device::ColumnNorm{rows, static_cast<int>(channels), 0};
}

auto column_planner(bool mean) {
  return [mean](const PlanRequest& request) -> std::unique_ptr<Plan> {
    const auto from = cuda::real_of(request.in[0].dtype), to = cuda::real_of(request.out[0].dtype);
    const auto columns = columns_of(request.in[0], op::reduced_axes(request.attrs.as<op::ReduceAttrs>().axes,
                                                                    request.in[0].shape.rank(), "reduce"));
    if (!from || !to || !columns) return nullptr;
    check_cuda(device::load_column_norm(), "loading a kernel");
    const float scale = mean ? 1.f / static_cast<float>(columns->rows) : 1.f;
    const auto bytes = static_cast<std::size_t>(device::column_norm_scratch(*columns)) * sizeof(float);
    return make_plan(bytes, [=, columns = *columns](const Launch& launch) {
      check_cuda(device::launch_column_sum(columns, {launch.in[0], *from}, {launch.out[0], *to}, scale,
                                           static_cast<float*>(launch.scratch), cuda::stream_of(launch)),
                 "launching a reduction");
    });
  };
}

// Folds of any dtype over any axes; `expression` is what is folded.
auto folder(cuda::Fold fold, const char* expression = "a", bool tests = false) {
  return [=](const PlanRequest& request) -> std::unique_ptr<Plan> {
    const ArgDesc& in = request.in[0];
    cuda::ChainFold made;
    made.fold = fold;
    made.axes = op::reduced_axes(request.attrs.as<op::ReduceAttrs>().axes, in.shape.rank(), "reduce");
    made.chain = {.shape = in.shape,
                  .operands = {{in.dtype, in.strides}},
                  .steps = {{expression, {0}, tests ? DType::boolean : request.out[0].dtype, {}}},
                  .outputs = {1}};
    if (!cuda::has_types(made.chain)) return nullptr;
    return cuda::plan_stages({cuda::fold_stage(made, cuda::plain_pointers(1, 1))});
  };
}

// Gradient of max and min: the first element of a result's terms that reaches it gets dy. One thread per result.
auto backward_planner(bool largest) {
  return [largest](const PlanRequest& request) -> std::unique_ptr<Plan> {
    const ArgDesc& x = request.in[1];
    const char* type = cuda::c_type(x.dtype);
    if (!type) return nullptr;
    const Shape axes = op::reduced_axes(request.attrs.as<op::ReduceAttrs>().axes, x.shape.rank(), "reduce");
    const cuda::TermWalk walk = cuda::walk_terms(x, axes);
    const std::string body = fmt::format(
        "  const long long base = {};\n  bool given = false;\n  for (long long j = 0; j < {}ll; ++j) {{\n"
        "    long long r = j;\n{}    const long long at = base + {};\n    const {} v = a1[at];\n"
        "    const bool wins = !given && (v {} a2[i] || v != v);\n    given = given || wins;\n"
        "    o0[at] = wins ? a0[i] : ({})0;\n  }}",
        walk.base, walk.terms, walk.decoded, walk.place, type, largest ? ">=" : "<=", type);
    return cuda::plan_code({walk.kept, {type, type, type}, {type}, body, {}});
  };
}

}  // namespace

void register_cuda_reduce(KernelTable& table) {
  const Storable columns{.narrow_in = numbered({0}), .images_in = numbered({0})};
  table.add("sum", DeviceKind::cuda, {"columns", Accepts::strided, column_planner(false)});
  table.add("mean", DeviceKind::cuda, {"columns", Accepts::strided, column_planner(true)});
  for (const char* op : {"sum", "mean", "max", "min", "prod", "any", "all"}) cuda::add_storable(op, columns);
  table.add("sum", DeviceKind::cuda, {"reduce", Accepts::contiguous, planner({Reduction::sum, false})});
  table.add("mean", DeviceKind::cuda, {"reduce", Accepts::contiguous, planner({Reduction::sum, true})});
  table.add("max", DeviceKind::cuda, {"reduce", Accepts::contiguous, planner({Reduction::max, false})});
  const auto add = [&](const char* op, auto plan) {
    table.add(op, DeviceKind::cuda, {"nvrtc", Accepts::strided, plan});
  };
  add("sum", folder(cuda::Fold::sum));
  add("mean", folder(cuda::Fold::mean));
  add("max", folder(cuda::Fold::max));
  add("min", folder(cuda::Fold::min));
  add("prod", folder(cuda::Fold::prod));
  add("any", folder(cuda::Fold::sum, "a != T(0)", true));
  add("all", folder(cuda::Fold::prod, "a != T(0)", true));
  table.add("max_backward", DeviceKind::cuda, {"nvrtc", Accepts::contiguous, backward_planner(true)});
  table.add("min_backward", DeviceKind::cuda, {"nvrtc", Accepts::contiguous, backward_planner(false)});
}

}  // namespace starling::kernels
