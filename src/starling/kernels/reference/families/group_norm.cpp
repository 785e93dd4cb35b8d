#include "starling/kernels/reference/normalize.h"

namespace starling::kernels {

void register_reference_group_norm(KernelTable& table) {
  reference::add_norm(table, "group_norm");
  reference::add_norm(table, "instance_norm");
}

}  // namespace starling::kernels
