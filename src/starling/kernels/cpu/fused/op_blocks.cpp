#include "starling/kernels/cpu/fused/op_blocks.h"

#include "starling/kernels/cpu/simd/vector_ops.h"

namespace starling::kernels {
namespace {

const BlockTable& block_table() {
  static const BlockTable* table = [] {
    auto* t = new BlockTable;
    register_cpu_blocks(*t);
    return t;
  }();
  return *table;
}

}  // namespace

std::optional<BlockType> lane_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return BlockType::f32;
    case DType::f64: return BlockType::f64;
    case DType::i32: return BlockType::i32;
    case DType::i64: return BlockType::i64;
    case DType::boolean: return BlockType::boolean;
    default: return std::nullopt;
  }
}

OpBlock find_block(const OpDef& op, std::span<const DType> operands) {
  const BlockEntry* entry = block_table().find(op.name);
  if (!entry || entry->arity != static_cast<int>(operands.size())) return {};
  const auto lane = lane_of(operands.back());
  if (!lane) return {};
  for (std::size_t k = 0; k < operands.size(); ++k) {
    const bool is_bool = (entry->bool_inputs >> k & 1u) != 0;
    if (operands[k] != (is_bool ? DType::boolean : operands.back())) return {};
  }
  return {entry, *lane, entry->of(*lane)};
}

}  // namespace starling::kernels
