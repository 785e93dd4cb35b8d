#pragma once

#include "starling/kernels/cpu/simd/block.h"

namespace starling {

// Adds the elementwise functions of the core ops, for the best instruction set of this machine:
//   f32 f64 i32 i64   add sub mul neg maximum minimum eq ne lt le gt ge where(bool, a, b)
//   f32 f64           div exp log tanh sigmoid relu sqrt
//   backward(dy, y)   relu_backward tanh_backward sigmoid_backward sqrt_backward, y being the forward's output
// Comparisons give bool. maximum and minimum give NaN when either operand is NaN; relu keeps NaN. Integers wrap.
void add_elementwise_blocks(BlockTable& table);

}  // namespace starling
