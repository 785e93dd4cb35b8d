#pragma once

#include <optional>
#include <string>

#include "starling/dist/codec/codec.h"

namespace starling::dist {

// Exchange of the gradients of one weight so far on this rank.
struct GradientTraffic {
  std::string name;
  double before = 0, after = 0;        // bytes of the gradients, and of the forms in which they travelled
  double error = 0;                    // norm of what is kept as a share of the gradient's, when last looked at
  std::optional<GradientForm> form{};  // where it is chosen
};

}  // namespace starling::dist
