#include "starling/kernels/gpu_facts.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/on_host.h"
#include "starling/kernels/storable.h"
#include "starling/kernels/widen.h"

namespace starling::kernels {

void register_device_kernels(KernelTable&) {}

Planned plan_converted(std::span<const ArgDesc>, std::span<const ArgDesc>, PlanFn) { return {}; }

Planned plan_on_host(const OpDef&, const Attrs&, std::span<const ArgDesc>, std::span<const ArgDesc>, int) { return {}; }

GpuFacts gpu_facts() { return {}; }

const Storable* find_storable(const OpDef&, DeviceKind) { return nullptr; }

}  // namespace starling::kernels
