#pragma once

#include "starling/base/error.h"

namespace starling {

// Thrown where the same call would end the same way again: what was asked for does not fit, as the folder of another
// run does not. `starling` ends with 2, and `starling launch` does not start again.
class Refusal : public Error {
 public:
  using Error::Error;
};

}  // namespace starling
