#include "starling/kernels/cuda/stages.h"

#include <algorithm>

#include "starling/kernels/cuda/stream.h"

namespace starling::cuda {

Stage chain_stage(const Chain& chain, std::vector<Pointer> pointers) {
  const auto n = chain.shape.numel();
  if (n == 0) return {};
  const auto per_block = static_cast<std::int64_t>(kChainThreads) * chain_elements(chain);
  return {&RunTimeKernel::of(chain_source(chain)), (n + per_block - 1) / per_block, kChainThreads, std::move(pointers)};
}

Stage fold_stage(const ChainFold& fold, std::vector<Pointer> pointers) {
  if (fold_results(fold) == 0) return {};
  return {&RunTimeKernel::of(fold_source(fold)), fold_blocks(fold), fold_threads(fold), std::move(pointers)};
}

void add_fold(std::vector<Stage>& stages, std::size_t& scratch_bytes, ChainFold fold, std::vector<Pointer> pointers) {
  constexpr std::int64_t kBlocks = 264, kLong = 16384, kMostPieces = 128;
  const std::int64_t results = fold_results(fold), terms = fold_terms(fold);
  const DType dtype = fold.chain.steps.empty() ? fold.chain.operands[0].dtype : fold.chain.steps.back().dtype;
  if (results == 0 || results >= kBlocks || terms < kLong || dtype != DType::f32) {
    stages.push_back(fold_stage(fold, std::move(pointers)));
    return;
  }
  const Pointer result = pointers.back(), parts{Pointer::Of::scratch, scratch_bytes};
  const Fold kind = fold.fold;
  fold.pieces = static_cast<int>(std::min({kMostPieces, terms / 4096, (2 * kBlocks + results - 1) / results}));
  if (kind == Fold::mean) fold.fold = Fold::sum;
  scratch_bytes += (static_cast<std::size_t>(results * fold.pieces) * sizeof(float) + 255) / 256 * 256;
  pointers.back() = parts;
  stages.push_back(fold_stage(fold, std::move(pointers)));
  const Shape shape{results, fold.pieces};
  const double scale = kind == Fold::mean ? 1 / static_cast<double>(terms) : 1;
  const std::string expression = kind == Fold::mean ? "a * p" : "a";
  stages.push_back(
      fold_stage({{shape, {{DType::f32, contiguous_strides(shape)}}, {{expression, {0}, DType::f32, {scale}}}, {1}},
                  {1},
                  fold.fold},
                 {parts, result}));
}

std::string code_source(const ElementCode& code) {
  const auto n = code.shape.numel();
  std::string text = fmt::format("typedef {} Index;\n", n < (std::int64_t{1} << 30) ? "int" : "long long");
  text += code.functions;
  std::string parameters;
  const auto separator = [&] { return parameters.empty() ? "" : ", "; };
  for (std::size_t k = 0; k < code.in.size(); ++k)
    parameters += fmt::format("{}const {}* a{}", separator(), code.in[k], k);
  for (std::size_t k = 0; k < code.out.size(); ++k) parameters += fmt::format("{}{}* o{}", separator(), code.out[k], k);
  text += fmt::format("extern \"C\" __global__ void __launch_bounds__({}) run({}) {{\n", kChainThreads, parameters);
  text +=
      "  asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n  asm volatile(\"griddepcontrol.launch_dependents;\" "
      "::: \"memory\");\n";
  text += fmt::format("  const Index i = (Index)blockIdx.x * {} + threadIdx.x;\n  if (i >= {}) return;\n",
                      kChainThreads, n);
  text += "  Index rest = i;\n";
  for (int d = code.shape.rank() - 1; d >= 0; --d)
    text += fmt::format("  const Index x{0} = rest % {1}; rest /= {1};\n", d, code.shape[d]);
  return text + code.body + "\n}\n";
}

Stage code_stage(const ElementCode& code, std::vector<Pointer> pointers) {
  const auto n = code.shape.numel();
  if (n == 0) return {};
  return {&RunTimeKernel::of(code_source(code)), (n + kChainThreads - 1) / kChainThreads, kChainThreads,
          std::move(pointers)};
}

std::vector<Pointer> plain_pointers(std::size_t in, std::size_t out) {
  std::vector<Pointer> pointers;
  for (std::size_t i = 0; i < in; ++i) pointers.push_back({Pointer::Of::in, i});
  for (std::size_t i = 0; i < out; ++i) pointers.push_back({Pointer::Of::out, i});
  return pointers;
}

std::unique_ptr<kernels::Plan> plan_code(const ElementCode& code) {
  return plan_stages({code_stage(code, plain_pointers(code.in.size(), code.out.size()))});
}

std::unique_ptr<kernels::Plan> plan_stages(std::vector<Stage> stages, std::size_t scratch_bytes) {
  constexpr std::size_t kMost = 160;
  for (const auto& stage : stages)
    check(stage.pointers.size() <= kMost, "[cuda] expected at most {} operands of a kernel, got {}", kMost,
          stage.pointers.size());
  return kernels::make_plan(scratch_bytes, [stages = std::move(stages)](const kernels::Launch& launch) {
    void* values[kMost];
    void* arguments[kMost];
    for (const auto& stage : stages) {
      if (stage.blocks == 0) continue;
      for (std::size_t i = 0; i < stage.pointers.size(); ++i) {
        const Pointer& pointer = stage.pointers[i];
        values[i] = pointer.of == Pointer::Of::in    ? launch.in[pointer.at]
                    : pointer.of == Pointer::Of::out ? launch.out[pointer.at]
                                                     : static_cast<char*>(launch.scratch) + pointer.at;
        arguments[i] = &values[i];
      }
      stage.kernel->launch(stage.blocks, stage.threads, arguments, stream_of(launch));
    }
  });
}

}  // namespace starling::cuda
