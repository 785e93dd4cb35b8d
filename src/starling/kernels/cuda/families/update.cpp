#include "starling/ops/def/attrs/update.h"

#include <algorithm>

#include "starling/kernels/cuda/row_updates.h"
#include "starling/kernels/cuda/run_time_kernel.h"
#include "starling/kernels/cuda/stream.h"
#include "starling/kernels/cuda/update_code.h"
#include "starling/kernels/kernel_table.h"
#include "update_rules.gen.h"

namespace starling::kernels {
namespace {

using cuda::RunTimeKernel;
using cuda::UpdateTable;

// Everything that a launch needs, found when it is planned.
struct Update {
  const RunTimeKernel* step = nullptr;
  const RunTimeKernel* norms = nullptr;
  std::size_t targets = 0, own_scalars = 0;
  bool scaled = false, guarded = false;
  std::vector<long long> sizes{};

  void run(const Launch& launch) const {
    const std::size_t n = sizes.size();
    UpdateTable table{};
    std::size_t at = n * (targets + 1);
    table.lr = launch.in[at++];
    if (own_scalars > 1) table.t = static_cast<const long long*>(launch.in[at++]);
    if (own_scalars > 2) table.mu = launch.in[at++];
    if (scaled) table.factor = static_cast<const float*>(launch.in[at++]);
    if (guarded) table.skip = static_cast<const bool*>(launch.in[at++]);
    table.norms = static_cast<float*>(launch.scratch);
    for (std::size_t first = 0; first < n; first += cuda::kUpdateTensors) part(launch, table, first);
  }

  void part(const Launch& launch, UpdateTable& table, std::size_t first) const {
    const std::size_t n = sizes.size();
    table.count = static_cast<int>(std::min<std::size_t>(cuda::kUpdateTensors, n - first));
    std::int64_t blocks = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(table.count); ++i) {
      auto& tensor = table.tensors[i];
      for (std::size_t k = 0; k < targets; ++k) {
        tensor.from[k] = cuda::input<float>(launch, k * n + first + i);
        tensor.to[k] = cuda::output<float>(launch, k * n + first + i);
      }
      tensor.gradient = cuda::input<float>(launch, targets * n + first + i);
      tensor.n = sizes[first + i];
      table.first_block[i] = static_cast<int>(blocks);
      blocks += (tensor.n + cuda::kUpdateBlock - 1) / cuda::kUpdateBlock;
    }
    if (blocks == 0) return;
    void* arguments[] = {&table};
    if (norms)
      norms->launch(std::int64_t{table.count} * cuda::kNormPieces, cuda::kUpdateThreads, arguments,
                    cuda::stream_of(launch));
    step->launch(blocks, cuda::kUpdateThreads, arguments, cuda::stream_of(launch));
  }
};

template <class A>
std::unique_ptr<Plan> plan_update(const PlanRequest& request) {
  const cuda::UpdateCode* code = cuda::update_code(A::kName);
  const A& attrs = request.attrs.as<A>();
  const op::UpdateOperands operands = op::update_operands(attrs);
  const std::size_t n = operands.tensors(request.in.size()), scalars = n * (operands.targets + 1);
  if (!code || !cuda::all_f32(request.in.subspan(0, scalars + 1))) return nullptr;
  Update update{
      .targets = operands.targets, .own_scalars = A::kScalars, .scaled = attrs.scaled, .guarded = attrs.guarded};
  for (std::size_t i = 0; i < n; ++i) update.sizes.push_back(request.in[i].shape.numel());
  const bool mu_double = A::kScalars > 2 && request.in[scalars + 2].dtype == DType::f64;
  const cuda::UpdateSource source{*code, request.attrs, operands.targets, mu_double};
  update.step = &RunTimeKernel::of(cuda::update_source(source));
  if (!code->ratio.empty()) update.norms = &RunTimeKernel::of(cuda::update_norm_source(source));
  const std::size_t bytes =
      update.norms ? std::size_t{cuda::kUpdateTensors} * cuda::kNormPieces * 2 * sizeof(float) : 0;
  return make_plan(bytes, [update = std::move(update)](const Launch& launch) { update.run(launch); });
}

// The same rule for the rows that a gradient by rows names. Its scalars are read by every thread.
template <class A>
std::unique_ptr<Plan> plan_update_rows(const PlanRequest& request) {
  const cuda::UpdateCode* code = cuda::update_code(A::kName);
  const A& attrs = request.attrs.as<A>();
  if (!code || !code->ratio.empty() || request.in[0].dtype != DType::f32) return nullptr;
  cuda::RowUpdate update{.targets = op::update_operands(attrs).targets};
  for (std::size_t i = update.targets + 2; i < request.in.size(); ++i)
    update.scalars.emplace_back(cuda::c_type(request.in[i].dtype));
  std::size_t at = 0;
  std::string scalars = fmt::format("  const double lr = (double)*b{};\n", at++);
  scalars += fmt::format("  const double t = {};\n", A::kScalars > 1 ? fmt::format("(double)*b{}", at++) : "1.0");
  scalars += fmt::format("  const double mu = {};\n", A::kScalars > 2 ? fmt::format("(double)*b{}", at++) : "1.0");
  scalars += fmt::format("  const float factor = {};\n", attrs.scaled ? fmt::format("*b{}", at++) : "1.f");
  scalars += fmt::format("  const bool skip = {};\n", attrs.guarded ? fmt::format("*b{}", at++) : "false");
  update.before = cuda::update_constants(request.attrs) + scalars +
                  "  float c0 = 0, c1 = 0, c2 = 0, c3 = 0; (void)c0; (void)c1; (void)c2; (void)c3;\n  " +
                  code->constants + "\n  if (skip) return;\n";
  update.step = "  g *= factor;\n  { " + code->step + " }";
  update.names.expression("F(e)", "((float)(e))");
  return cuda::plan_row_update(request, update);
}

}  // namespace

void register_cuda_update(KernelTable& table) {
  op::for_update_rules([&]<class A>() {
    table.add(A::kName, DeviceKind::cuda, {"nvrtc", Accepts::contiguous, plan_update<A>});
    if constexpr (op::kHasRows<A>)
      table.add(std::string(A::kName) + "_rows", DeviceKind::cuda, {"rows", Accepts::contiguous, plan_update_rows<A>});
  });
}

}  // namespace starling::kernels
