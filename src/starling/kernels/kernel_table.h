#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "starling/kernels/kernel.h"

namespace starling::kernels {

// Kernels of every op by kind of device, in order of preference; on the CPU the reference kernels come last. Built once
// at first use from the families found by the build, immutable afterwards.
class KernelTable {
 public:
  void add(std::string_view op, DeviceKind device, Kernel kernel);
  const std::vector<Kernel>& find(const OpDef& op, DeviceKind device) const;

 private:
  std::vector<std::map<int, std::vector<Kernel>>> by_device_ = std::vector<std::map<int, std::vector<Kernel>>>(3);
};

const KernelTable& kernel_table();

// A plan, and the inputs that must be copied to dense memory first.
struct Planned {
  std::unique_ptr<Plan> plan;
  std::string kernel;
  std::vector<bool> densify;
};

struct PlanOptions {
  int threads = 1;
  bool reference_only = false;
};

// Picks the first kernel that takes the signature, on the CPU also after widening 16-bit floats; throws naming op,
// device and dtypes if there is none.
Planned plan_kernel(const OpDef& op, DeviceKind device, const Attrs& attrs, std::span<const ArgDesc> in,
                    std::span<const ArgDesc> out, const PlanOptions& options);

}  // namespace starling::kernels
