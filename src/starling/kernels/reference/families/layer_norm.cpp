#include "starling/kernels/reference/normalize.h"

namespace starling::kernels {

void register_reference_layer_norm(KernelTable& table) {
  reference::add_norm(table, "layer_norm");
  reference::add_norm(table, "rms_norm");
}

}  // namespace starling::kernels
