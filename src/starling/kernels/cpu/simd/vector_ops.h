#pragma once

#include "starling/kernels/cpu/simd/block.h"

namespace starling::kernels {

// Adds the functions of every file in kernels/cpu/blocks, for the best instruction set of this machine. The call of
// each file's register_block_<file> is generated. A function has the name of its op (comparisons are eq ne lt le gt
// ge), its operands, and its attributes as parameters. Comparisons and tests return bool. maximum and minimum return
// NaN if either operand is NaN; relu and clamp keep NaN. Integers wrap. Integer ops that throw (division by 0) have no
// function here: the reference kernels run them.
void register_cpu_blocks(BlockTable& table);

}  // namespace starling::kernels
