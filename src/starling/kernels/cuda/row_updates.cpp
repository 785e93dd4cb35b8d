#include "starling/kernels/cuda/row_updates.h"

#include "starling/kernels/cuda/stream.h"
#include "starling/tensor/shape_parts.h"

namespace starling::cuda {
namespace {

std::string code_of(const RowUpdate& update) {
  std::string text =
      "  const long long p = i / WIDTH, j = i % WIDTH, row = a0[a2[p]];\n"
      "  if (row < 0 || row >= ROWS || (p > 0 && a0[a2[p - 1]] == row)) return;\n"
      "  double sum = 0;\n"
      "  for (long long q = p; q < COUNT && a0[a2[q]] == row; ++q) sum += (double)a1[(long long)a2[q] * WIDTH + j];\n"
      "  const long long at = row * WIDTH + j;\n";
  for (std::size_t k = 0; k < update.scalars.size(); ++k) text += fmt::format("  const auto* b{} = a{};\n", k, 3 + k);
  text += update.before + "\n  {\n";  // a scope of its own: coordinates have the names of states
  for (std::size_t k = 0; k < update.targets; ++k) text += fmt::format("  T x{0} = o{0}[at];\n", k);
  for (std::size_t k = update.targets; k < 4; ++k) text += fmt::format("  T x{0} = 0; (void)x{0};\n", k);
  text += "  T g = sum;\n" + update.step + "\n";
  for (std::size_t k = 0; k < update.targets; ++k) text += fmt::format("  o{0}[at] = x{0};\n", k);
  return text + "  }\n";
}

}  // namespace

std::unique_ptr<kernels::Plan> plan_row_update(const kernels::PlanRequest& request, const RowUpdate& update) {
  const std::size_t targets = update.targets;
  const DType dtype = request.in[0].dtype;
  if (!is_plain_float(dtype)) return nullptr;
  const std::int64_t n = request.in[targets].shape[0], width = row_size(request.in[0].shape);
  auto sorted = SortedLines::plan(DType::i64, {1, n, 1}, false, {Pointer::Of::in, targets});
  if (!sorted) return nullptr;
  RowUpdate named = update;
  named.names.type("T", dtype).number("ROWS", request.in[0].shape[0]).number("WIDTH", width).number("COUNT", n);
  ElementCode code{{n * width}, {"long long", c_type(dtype), "unsigned"}, {}, code_of(named), named.names.text()};
  std::vector<Pointer> pointers{{Pointer::Of::in, targets}, {Pointer::Of::in, targets + 1}, sorted->positions()};
  for (std::size_t k = 0; k < update.scalars.size(); ++k) {
    code.in.push_back(update.scalars[k]);
    pointers.push_back({Pointer::Of::in, targets + 2 + k});
  }
  for (std::size_t k = 0; k < targets; ++k) {
    code.out.emplace_back(c_type(dtype));
    pointers.push_back({Pointer::Of::out, k});
  }
  std::shared_ptr<const kernels::Plan> rows = plan_after(*sorted, {code_stage(code, std::move(pointers))});
  const std::size_t bytes = kernels::bytes_of(request.in[0]);
  return kernels::make_plan(rows->scratch_bytes, [=](const kernels::Launch& launch) {
    for (std::size_t k = 0; k < targets && bytes > 0; ++k) {
      if (launch.in[k] == launch.out[k]) continue;
      check_cuda(cudaMemcpyAsync(launch.out[k], launch.in[k], bytes, cudaMemcpyDeviceToDevice, stream_of(launch)),
                 "copying a tensor");
    }
    rows->run(launch);
  });
}

}  // namespace starling::cuda
