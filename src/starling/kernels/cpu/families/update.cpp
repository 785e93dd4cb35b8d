#include "starling/ops/def/attrs/update.h"

#include <new>
#include <vector>

#include "starling/base/parallel.h"
#include "starling/base/round_up.h"
#include "starling/kernels/by_float.h"
#include "starling/kernels/cpu/index/row_groups.h"
#include "starling/kernels/cpu/update/in_place.h"
#include "starling/kernels/cpu/update/update.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/learning_rate.h"
#include "update_rules.gen.h"

namespace starling::kernels {
namespace {

// dtypes of the scalars that may be f32 or f64: the learning rate and, if a rule has a third, that.
struct ScalarTypes {
  DType lr, mu;
};
template <class A>
ScalarTypes scalar_types(const PlanRequest& request, std::size_t scalars) {
  return {request.in[scalars].dtype, A::kScalars > 2 ? request.in[scalars + 2].dtype : DType::f64};
}

// Values of the scalar operands after the tensors.
struct Scalars {
  op::UpdateMoment now;
  bool skip = false;
};

template <class A>
Scalars read_scalars(const A& attrs, ScalarTypes types, const Launch& launch, std::size_t at) {
  const auto next = [&]<class S>() { return *static_cast<const S*>(launch.in[at++]); };
  Scalars read;
  read.now.lr = read_rate(types.lr, launch.in[at++]);
  if (A::kScalars > 1) read.now.t = static_cast<double>(next.template operator()<std::int64_t>());
  if (A::kScalars > 2)
    read.now.mu = types.mu == DType::f64 ? next.template operator()<double>()
                                         : static_cast<double>(next.template operator()<float>());
  if (attrs.scaled) read.now.factor = static_cast<double>(next.template operator()<float>());
  if (attrs.guarded) read.skip = next.template operator()<bool>();
  return read;
}

template <class A>
constexpr bool kTrusts = Trusting<typename NumbersOf<A, float>::type>;

template <class A, class T>
struct UpdateRun {
  A attrs;
  op::UpdateOperands operands;
  std::vector<std::int64_t> sizes;
  ScalarTypes types;

  std::size_t lists() const { return round_up(sizes.size() * sizeof(UpdateTensor<T>)); }
  std::size_t scratch() const { return lists() + (kTrusts<A> ? trust_scratch(sizes) : 0); }

  void operator()(const Launch& launch) const {
    const std::size_t n = sizes.size();
    auto* tensors = static_cast<UpdateTensor<T>*>(launch.scratch);
    for (std::size_t i = 0; i < n; ++i) {
      auto* tensor = new (tensors + i) UpdateTensor<T>{{}, nullptr, sizes[i]};
      for (std::size_t k = 0; k < operands.targets; ++k) tensor->targets[k] = in_place<T>(launch, k * n + i, sizes[i]);
      tensor->gradient = static_cast<const T*>(launch.in[operands.targets * n + i]);
    }
    const Scalars scalars = read_scalars(attrs, types, launch, (operands.targets + 1) * n);
    if (scalars.skip) return;
    const typename NumbersOf<A, T>::type numbers(attrs, scalars.now);
    const std::span<const UpdateTensor<T>> all{tensors, n};
    if constexpr (kTrusts<A>)
      update_trusted<T>(all, numbers, static_cast<std::byte*>(launch.scratch) + lists());
    else
      update_tensors<T>(all, numbers);
  }
};

template <class A>
std::unique_ptr<Plan> plan_update(const PlanRequest& request) {
  const auto& attrs = request.attrs.as<A>();
  const op::UpdateOperands operands = op::update_operands(attrs);
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < operands.tensors(request.in.size()); ++i) sizes.push_back(request.in[i].shape.numel());
  const ScalarTypes types = scalar_types<A>(request, (operands.targets + 1) * sizes.size());
  return for_floats(request.in[0].dtype, [&]<class T>() {
    const UpdateRun<A, T> run{attrs, operands, sizes, types};
    return make_plan(run.scratch(), run);
  });
}

// Row-sparse update (targets…, rows, values, scalars…): each row that occurs is updated as a small tensor.
template <class A, class T>
struct RowsRun {
  A attrs;
  std::size_t targets;
  std::int64_t all, rows, n, width;
  RowAdd<T> add;
  int threads;
  DType lr;

  static constexpr std::int64_t kGrain = 16384;  // elements worth a thread

  std::size_t scratch() const {
    return sort_bytes(n) + static_cast<std::size_t>(threads) * static_cast<std::size_t>(width) * sizeof(T);
  }

  void operator()(const Launch& launch) const {
    const auto* given = static_cast<const std::int64_t*>(launch.in[targets]);
    const auto* values = static_cast<const T*>(launch.in[targets + 1]);
    check_indices(given, n, rows, A::kName.data());
    UpdateTensor<T> whole{{}, nullptr, width};
    for (std::size_t k = 0; k < targets; ++k) whole.targets[k] = in_place<T>(launch, k, all);
    const Scalars scalars = read_scalars(attrs, {lr, DType::f64}, launch, targets + 2);
    if (scalars.skip || n == 0 || width == 0) return;
    const UpdateNumbers<T> numbers = typename NumbersOf<A, T>::type(attrs, scalars.now);
    auto* entries = static_cast<RowEntry*>(launch.scratch);
    const RowEntry* sorted = sort_by_row(given, n, entries, entries + n);
    auto* sums = reinterpret_cast<T*>(entries + 2 * n);
    const auto pieces =
        static_cast<int>(std::clamp<std::int64_t>(n * width / kGrain, 1, std::min<std::int64_t>(threads, n)));
    parallel_run(pieces, [&](int piece) {
      T* sum = sums + piece * width;
      for_groups(sorted, n, n * piece / pieces, n * (piece + 1) / pieces, [&](std::int64_t first, std::int64_t end) {
        UpdateTensor<T> row = whole;
        row.gradient = sum_of(sorted, first, end, values, width, add, sum);
        if (end + kAhead < n) prefetch(whole, sorted[end + kAhead], values);
        for (std::size_t k = 0; k < targets; ++k) row.targets[k] += sorted[first].row * width;
        update_piece(row, numbers);
      });
    });
  }

  void prefetch(const UpdateTensor<T>& whole, const RowEntry& entry, const T* values) const {
    for (std::size_t k = 0; k < targets; ++k) prefetch_row(whole.targets[k] + entry.row * width, width);
    prefetch_row(values + entry.position * width, width);
  }
};

template <class A>
std::unique_ptr<Plan> plan_update_rows(const PlanRequest& request) {
  static_assert(!kTrusts<A>, "a row alone does not have the norms of its tensor");
  const auto& attrs = request.attrs.as<A>();
  const op::UpdateOperands operands = op::update_operands(attrs);
  const Shape& w = request.in[0].shape;
  const auto width = row_size(w), n = request.in[operands.targets].shape[0];
  return for_floats(request.in[0].dtype, [&]<class T>() {
    const RowsRun<A, T> run{attrs,
                            operands.targets,
                            w.numel(),
                            w[0],
                            n,
                            width,
                            RowAdd<T>(width),
                            std::max(request.threads, 1),
                            request.in[operands.targets + 2].dtype};
    return make_plan(run.scratch(), run);
  });
}

}  // namespace

void register_cpu_update(KernelTable& table) {
  op::for_update_rules([&]<class A>() {
    table.add(A::kName, DeviceKind::cpu, {"simd", Accepts::contiguous, plan_update<A>});
    if constexpr (op::kHasRows<A>)
      table.add(std::string(A::kName) + "_rows", DeviceKind::cpu, {"rows", Accepts::contiguous, plan_update_rows<A>});
  });
}

}  // namespace starling::kernels
