#pragma once

#include "starling/runtime/executable.h"

namespace starling {

// Proves that the memory of a program is right, from its graph and its instructions alone. The instructions are
// executed symbolically, each byte of memory knowing whose value lies there; then
// - every kernel reads the values that its node reads, through views too, wherever they were copied;
// - no kernel overwrites what is still to be read, nor its own operands unless the op may;
// - inputs and constants are never written, variables hold what the last assign gave them, outputs are complete;
// - whatever two lanes touch in one place, one of them writing, is ordered by waits, and no wait can last for ever.
// So the result is that of the graph, however the lanes interleave. Throws "[alias] …", naming instruction and place.
void check_aliases(const Executable& executable);

}  // namespace starling
