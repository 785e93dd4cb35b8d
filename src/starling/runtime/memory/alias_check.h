#pragma once

#include "starling/runtime/execution/executable.h"

namespace starling::runtime {

// Proves that a program's use of memory is correct, from its graph and instructions alone. The instructions are
// executed symbolically, tracking which value each byte of memory holds, and the check verifies that
// - every kernel reads the values that its node reads, through views too, wherever they were copied;
// - no kernel overwrites a value still to be read, nor its own operands unless the op may;
// - inputs and constants are never written, variables hold their last assigned value, outputs are complete;
// - conflicting accesses of two lanes are ordered by waits, and no wait can deadlock.
// So the result is that of the graph, however the lanes interleave. Throws "[alias] …", naming instruction and address.
void check_aliases(const Executable& executable);

}  // namespace starling::runtime
