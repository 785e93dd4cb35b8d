#pragma once

#include "starling/kernels/cpu/simd/block.h"

namespace starling {

// Adds the functions of every file in kernels/cpu/blocks, for the best instruction set of this machine. The call of
// each file's register_block_<file> is generated. A function has the name of its op (comparisons are eq ne lt le gt
// ge), its operands, and its attributes as parameters. Comparisons and tests give bool. maximum and minimum give NaN
// when either operand is NaN; relu and clamp keep NaN. Integers wrap. What throws on integers (division by 0) has no
// function for them: the reference kernels do it.
void register_cpu_blocks(BlockTable& table);

}  // namespace starling
