#include "starling/ops/api/sparse.h"

#include "starling/kernels/cuda/code_names.h"
#include "starling/kernels/cuda/sorted_lines.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/def/attrs/sparse.h"

namespace starling::kernels {
namespace {

using cuda::Pointer;

// The CSR matrix (row offsets a0, columns a1, values a2) times a3: one thread per element of the result. Offsets and
// columns that fit no matrix cannot throw here: columns give NaN, and nothing outside the entries is read.
constexpr const char* kCode = R"(
static __device__ long long within(long long e) { return e < 0 ? 0 : e > COUNT ? COUNT : e; }
)";

constexpr const char* kProduct = R"(
  double sum = 0;
  for (long long e = within(a0[x0]), end = within(a0[x0 + 1]); e < end; ++e) {
    const long long column = a1[e];
    sum += column < 0 || column >= COLUMNS ? __longlong_as_double(-1) : (double)a2[e] * (double)a3[column * N + x1];
  }
  o0[i] = sum;
)";

// Transposed product: a4 has the entries in the order of their columns; row_of(e) is found among the offsets.
constexpr const char* kTransposed = R"(
  long long low = 0, high = COUNT;
  while (low < high) {
    const long long middle = (low + high) / 2;
    if (a1[a4[middle]] < x0) low = middle + 1; else high = middle;
  }
  double sum = 0;
  for (long long p = low; p < COUNT && a1[a4[p]] == x0; ++p) {
    const long long e = a4[p];
    long long row = 0, last = ROWS;
    while (row < last) {
      const long long middle = (row + last) / 2;
      if (a0[middle + 1] <= e) row = middle + 1; else last = middle;
    }
    if (row < ROWS) sum += (double)a2[e] * (double)a3[row * N + x1];
  }
  o0[i] = sum;
)";

constexpr const char* kSample = R"(
  long long row = 0, last = ROWS;
  while (row < last) {
    const long long middle = (row + last) / 2;
    if (a0[middle + 1] <= i) row = middle + 1; else last = middle;
  }
  const long long column = a1[i];
  double sum = 0;
  if (column < 0 || column >= COLUMNS) sum = __longlong_as_double(-1);
  else if (row < ROWS && a0[row] <= i)
    for (long long j = 0; j < N; ++j) sum += (double)a2[row * N + j] * (double)a3[column * N + j];
  o0[i] = sum;
)";

cuda::CodeNames names_of(const PlanRequest& request, std::int64_t columns, std::int64_t n) {
  cuda::CodeNames names;
  names.number("ROWS", request.in[0].shape[0] - 1).number("COUNT", request.in[1].shape[0]);
  return names.number("COLUMNS", columns).number("N", n).code(kCode);
}

std::unique_ptr<Plan> plan_matmul(const PlanRequest& request) {
  if (!cuda::is_plain_float(request.in[2].dtype)) return nullptr;
  const auto& at = request.attrs.as<op::CsrAttrs>();
  const auto names = names_of(request, request.in[3].shape[0], request.out[0].shape[1]);
  const std::string type = cuda::c_type(request.in[2].dtype);
  cuda::ElementCode code{request.out[0].shape, {"long long", "long long", type, type}, {type}, kProduct, names.text()};
  if (!at.trans) return cuda::plan_code(code);
  const std::int64_t count = request.in[1].shape[0];
  auto sorted = cuda::SortedLines::plan(DType::i64, {1, count, 1}, false, {Pointer::Of::in, 1});
  if (!sorted) return nullptr;
  code.body = kTransposed;
  code.in.emplace_back("unsigned");
  std::vector<Pointer> pointers = cuda::plain_pointers(4, 0);
  pointers.push_back(sorted->positions());
  pointers.push_back({Pointer::Of::out, 0});
  const auto stage = cuda::code_stage(code, std::move(pointers));
  return cuda::plan_after(std::move(*sorted), {stage});
}

std::unique_ptr<Plan> plan_sample(const PlanRequest& request) {
  if (!cuda::is_plain_float(request.in[2].dtype)) return nullptr;
  const auto names = names_of(request, request.in[3].shape[0], request.in[2].shape[1]);
  const std::string type = cuda::c_type(request.in[2].dtype);
  return cuda::plan_code({request.out[0].shape, {"long long", "long long", type, type}, {type}, kSample, names.text()});
}

}  // namespace

void register_cuda_sparse(KernelTable& table) {
  table.add("csr_matmul", DeviceKind::cuda, {"csr", Accepts::contiguous, plan_matmul});
  table.add("csr_sample", DeviceKind::cuda, {"csr", Accepts::contiguous, plan_sample});
}

}  // namespace starling::kernels
