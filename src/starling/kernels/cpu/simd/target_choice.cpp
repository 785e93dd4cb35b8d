#include "starling/kernels/cpu/simd/target_choice.h"

#include <hwy/targets.h>

namespace starling::kernels {

void choose_simd_target() { hwy::GetChosenTarget().Update(hwy::SupportedTargets()); }

}  // namespace starling::kernels
