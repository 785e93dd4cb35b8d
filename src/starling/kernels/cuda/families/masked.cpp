#include "starling/ops/api/masked.h"

#include "starling/kernels/cuda/code_names.h"
#include "starling/kernels/cuda/stages.h"

namespace starling::kernels {
namespace {

using cuda::Pointer;

// Elements per thread: threads count where the mask holds in their part, one thread sums the counts, and the threads
// walk their parts again.
constexpr std::int64_t kPart = 256;

constexpr const char* kCount = R"(
  long long count = 0;
  for (long long k = i * PART; k < (i + 1) * PART && k < N; ++k) count += a0[k];
  o0[i] = count;
)";
constexpr const char* kSum = R"(
  long long before = 0;
  for (long long k = 0; k < PARTS; ++k) { const long long count = o0[k]; o0[k] = before; before += count; }
  o0[PARTS] = before;
)";
constexpr const char* kGather = R"(
  long long at = a2[i];
  for (long long k = i * PART; k < (i + 1) * PART && k < N; ++k) {
    if (a1[k] && at < MOST) o0[at++] = a0[k];
  }
)";
constexpr const char* kRest = "  if (i >= a0[PARTS]) o0[i] = 0;";
// More places than the source has elements give NaN (all bits set): device code cannot throw.
constexpr const char* kScatter = R"(
  long long at = a3[i];
  for (long long k = i * PART; k < (i + 1) * PART && k < N; ++k) {
    const bool taken = a1[k];
    o0[k] = !taken ? a0[k] : at < MOST ? a2[at] : (V)-1;
    at += taken;
  }
)";

struct Counted {
  std::int64_t n, parts;
  cuda::CodeNames names{};
  std::vector<cuda::Stage> stages{};
  Pointer counts{Pointer::Of::scratch, 0};

  Counted(const PlanRequest& request, std::int64_t most)
      : n(request.in[0].shape.numel()), parts((n + kPart - 1) / kPart) {
    names.number("PART", kPart).number("PARTS", parts).number("N", n).number("MOST", most);
    stages.push_back(cuda::code_stage({{parts}, {"unsigned char"}, {"long long"}, kCount, names.text()},
                                      {{Pointer::Of::in, 1}, counts}));
    stages.push_back(cuda::code_stage({{1}, {}, {"long long"}, kSum, names.text()}, {counts}));
  }
  std::unique_ptr<Plan> plan() {
    return cuda::plan_stages(std::move(stages), static_cast<std::size_t>(parts + 1) * sizeof(std::int64_t));
  }
};

std::unique_ptr<Plan> plan_gather(const PlanRequest& request) {
  const std::string type = cuda::moved_type(request.in[0].dtype);
  const std::int64_t most = request.out[0].shape[0];
  Counted c(request, most);
  c.stages.push_back(
      cuda::code_stage({{c.parts}, {type, "unsigned char", "long long"}, {type}, kGather, c.names.text()},
                       {{Pointer::Of::in, 0}, {Pointer::Of::in, 1}, c.counts, {Pointer::Of::out, 0}}));
  c.stages.push_back(
      cuda::code_stage({{most}, {"long long"}, {type}, kRest, c.names.text()}, {c.counts, {Pointer::Of::out, 0}}));
  return c.plan();
}

std::unique_ptr<Plan> plan_scatter(const PlanRequest& request) {
  const std::string type = cuda::moved_type(request.in[0].dtype);
  Counted c(request, request.in[2].shape.numel());
  c.names.expression("V", type);
  std::vector<Pointer> pointers = cuda::plain_pointers(3, 0);
  pointers.push_back(c.counts);
  pointers.push_back({Pointer::Of::out, 0});
  c.stages.push_back(cuda::code_stage(
      {{c.parts}, {type, "unsigned char", type, "long long"}, {type}, kScatter, c.names.text()}, std::move(pointers)));
  return c.plan();
}

}  // namespace

void register_cuda_masked(KernelTable& table) {
  table.add("masked_gather", DeviceKind::cuda, {"nvrtc", Accepts::contiguous, plan_gather});
  table.add("masked_scatter", DeviceKind::cuda, {"nvrtc", Accepts::contiguous, plan_scatter});
}

}  // namespace starling::kernels
