#include "starling/kernels/cuda/update_code.h"

#include <fmt/format.h>

#include "starling/kernels/cuda/elementwise.h"

namespace starling::cuda {
namespace {

// The table as device code sees it, and what both kernels begin with: constants, the tensor t and its scalars.
std::string begin_of(const UpdateSource& source) {
  std::string text = fmt::format(
      "#define F(e) ((float)(e))\n"
      "struct Tensor {{ const float* from[4]; float* to[4]; const float* gradient; long long n; }};\n"
      "struct Table {{ Tensor tensors[{0}]; int first_block[{0}]; int count; const void* lr; const long long* t;\n"
      "  const void* mu; const float* factor; const bool* skip; float* norms; }};\n"
      "extern \"C\" __global__ void __launch_bounds__({1}) run(const __grid_constant__ Table p) {{\n"
      "  asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n"
      "  asm volatile(\"griddepcontrol.launch_dependents;\" ::: \"memory\");\n",
      kUpdateTensors, kUpdateThreads);
  text += update_constants(source.attrs);
  text += fmt::format(
      "  __shared__ float shared[4];\n"
      "  if (threadIdx.x == 0) {{\n"
      "    const double lr = *(const float*)p.lr, t = p.t ? (double)*p.t : 1.0;\n"
      "    const double mu = p.mu ? (double)*(const {}*)p.mu : 1.0;\n"
      "    float c0 = 0, c1 = 0, c2 = 0, c3 = 0;\n    {}\n"
      "    shared[0] = c0; shared[1] = c1; shared[2] = c2; shared[3] = c3;\n  }}\n  __syncthreads();\n"
      "  const float c0 = shared[0], c1 = shared[1], c2 = shared[2], c3 = shared[3];\n"
      "  const float factor = p.factor ? *p.factor : 1.f;\n"
      "  (void)c0; (void)c1; (void)c2; (void)c3;\n",
      source.mu_double ? "double" : "float", source.code.constants);
  return text;
}

std::string loads(const UpdateSource& source) {
  std::string text = "    float x0 = 0, x1 = 0, x2 = 0, x3 = 0; (void)x1; (void)x2; (void)x3;\n";
  for (std::size_t k = 0; k < source.targets; ++k) text += fmt::format("    x{0} = tensor.from[{0}][i];\n", k);
  return text + "    float g = factor * tensor.gradient[i];\n";
}

}  // namespace

void register_update_codes(UpdateCodes& into);  // generated

std::string update_constants(const Attrs& attrs) {
  std::string text;
  for (const auto& field : attrs.type().fields) {
    if (field.kind == AttrKind::real) {
      text += fmt::format("  const double {} = {};\n", field.name, literal(attrs.get<double>(field)));
    } else if (field.kind == AttrKind::boolean) {
      text += fmt::format("  const bool {} = {};\n", field.name, attrs.get<bool>(field));
    }
  }
  return text;
}

const UpdateCode* update_code(std::string_view op) {
  static const UpdateCodes& codes = []() -> const UpdateCodes& {
    auto* made = new UpdateCodes;
    register_update_codes(*made);
    return *made;
  }();
  const auto it = codes.find(op);
  return it == codes.end() ? nullptr : &it->second;
}

std::string update_source(const UpdateSource& source) {
  std::string text = begin_of(source);
  text +=
      "  int k = 0;\n  while (k + 1 < p.count && p.first_block[k + 1] <= (int)blockIdx.x) ++k;\n"
      "  const Tensor& tensor = p.tensors[k];\n  const bool skip = p.skip && *p.skip;\n  float r = 1; (void)r;\n";
  if (!source.code.ratio.empty()) {
    text += fmt::format(
        "  float wn = 0, on = 0;\n  for (int b = 0; b < {0}; ++b) {{ wn += p.norms[(k * {0} + b) * 2]; on += "
        "p.norms[(k * {0} + b) * 2 + 1]; }}\n  wn = sqrtf(wn); on = sqrtf(on);\n  {1}\n",
        kNormPieces, source.code.ratio);
  }
  text += fmt::format(
      "  const long long first = (long long)((int)blockIdx.x - p.first_block[k]) * {} + threadIdx.x;\n"
      "  #pragma unroll\n  for (int e = 0; e < 4; ++e) {{\n    const long long i = first + e * {};\n"
      "    if (i >= tensor.n) break;\n",
      kUpdateBlock, kUpdateThreads);
  text += loads(source) + "    if (!skip) { " + source.code.step + " }\n";
  for (std::size_t k = 0; k < source.targets; ++k) text += fmt::format("    tensor.to[{0}][i] = x{0};\n", k);
  return text + "  }\n}\n";
}

// kNormPieces blocks per tensor; each leaves the sums of squares of its part.
std::string update_norm_source(const UpdateSource& source) {
  std::string text = begin_of(source);
  text += fmt::format(
      "  const int k = blockIdx.x / {0}, piece = blockIdx.x % {0};\n  const Tensor& tensor = p.tensors[k];\n"
      "  float wn = 0, on = 0;\n"
      "  for (long long i = (long long)piece * {1} + threadIdx.x; i < tensor.n; i += {0}ll * {1}) {{\n",
      kNormPieces, kUpdateThreads);
  text += loads(source) + "    wn += x0 * x0;\n    { " + source.code.measured + " on += m * m; }\n  }\n";
  text += fmt::format(
      "  __shared__ float sums[{0}][2];\n"
      "  for (int s = 16; s > 0; s /= 2) {{ wn += __shfl_down_sync(~0u, wn, s); on += __shfl_down_sync(~0u, on, s); "
      "}}\n"
      "  if (threadIdx.x % 32 == 0) {{ sums[threadIdx.x / 32][0] = wn; sums[threadIdx.x / 32][1] = on; }}\n"
      "  __syncthreads();\n  if (threadIdx.x > 0) return;\n"
      "  for (int w = 1; w < {0}; ++w) {{ wn += sums[w][0]; on += sums[w][1]; }}\n"
      "  p.norms[2 * blockIdx.x] = wn; p.norms[2 * blockIdx.x + 1] = on;\n}}\n",
      kUpdateThreads / 32);
  return text;
}

}  // namespace starling::cuda
