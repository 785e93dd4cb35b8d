#pragma once

#include "bind.h"

namespace starling::python {

// Calls whose arguments fit no function are told in our words: which argument, what it expects, what it got. The text
// is made by starling/_refusals.py when a call has failed; one that succeeds costs an indirect jump. To be called when
// all functions of the module are there.
void tell_refusals(nb::module_& m);

}  // namespace starling::python
