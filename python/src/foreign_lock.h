#pragma once

namespace starling::python {

// Kernels that run long give the GIL back, also where Python called an op by itself.
void let_kernels_release_the_gil();

}  // namespace starling::python
