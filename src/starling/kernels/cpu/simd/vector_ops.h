#pragma once

#include "starling/kernels/cpu/simd/block.h"

namespace starling {

// Adds the functions of every file in kernels/cpu/blocks, for the best instruction set of this machine. The call of
// each file's register_block_<file> is generated. Those of core.cpp:
//   f32 f64 i32 i64   add sub mul neg maximum minimum eq ne lt le gt ge where(bool, a, b)
//   f32 f64           div exp log tanh sigmoid relu sqrt
//   backward(dy, y)   relu_backward tanh_backward sigmoid_backward sqrt_backward, y being the forward's output
// Comparisons give bool. maximum and minimum give NaN when either operand is NaN; relu keeps NaN. Integers wrap.
void register_cpu_blocks(BlockTable& table);

}  // namespace starling
