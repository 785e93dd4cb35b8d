#include "starling/kernels/cuda/storage.h"

#include <map>

#include "starling/kernels/kernel_table.h"

namespace starling::cuda {
namespace {

// Filled while the kernel table is built, read-only afterwards.
std::map<std::string, kernels::Storable, std::less<>>& storables() {
  static auto& map = *new std::map<std::string, kernels::Storable, std::less<>>;
  return map;
}

}  // namespace

void add_storable(const std::string& op, kernels::Storable storable) { storables()[op] = std::move(storable); }

}  // namespace starling::cuda

namespace starling::kernels {

const Storable* find_storable(const OpDef& op, DeviceKind device) {
  static_cast<void>(kernel_table());  // built by now
  if (device != DeviceKind::cuda) return nullptr;
  const auto it = cuda::storables().find(op.name);
  return it == cuda::storables().end() ? nullptr : &it->second;
}

}  // namespace starling::kernels
