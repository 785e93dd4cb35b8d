#pragma once

namespace starling::dist {

// Costs of computing, measured on this thread's cores: as WorldCosts has them.
struct ComputeCosts {
  double flop_seconds = 0;
  double half_seconds = 0, bit_seconds = 0;
};
ComputeCosts measured_here();

}  // namespace starling::dist
