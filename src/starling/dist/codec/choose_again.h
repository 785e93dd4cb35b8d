#pragma once

#include <span>
#include <vector>

#include "starling/dist/codec/codec.h"

namespace starling::dist {

// A gradient whose form is chosen while training goes on.
struct ChosenGradient {
  const Codec* codec = nullptr;
  GradientFacts facts{};
  GradientForm form = GradientForm::dense;  // now
  double error = 0;                         // of one_bit, mean over ranks
  bool keeps = false;                       // something of it is kept, on some rank
};

// A step since the last choice, mean over ranks.
struct SeenStep {
  double seconds = 0;
  double waited = 0;  // for exchanges
};

// Forms of the gradients from now on, a function of its arguments: ranks that agree on these agree on the forms.
//   * A gradient of which one_bit keeps more than its codec's most_error travels otherwise.
//   * Where workers wait for less than a twentieth of their time there is little to gain: gradients return from lossy
//     forms to exact ones, the cheapest ones first, as long as the waits are expected to stay below that.
//   * Else the cheapest form, by the measured costs times what the waits were of the time that they tell.
//   * What one_bit has kept leaves with dense or bf16, so factors come a choice later.
std::vector<GradientForm> choose_again(std::span<const ChosenGradient> gradients, const WorldCosts& costs,
                                       const SeenStep& seen);

}  // namespace starling::dist
