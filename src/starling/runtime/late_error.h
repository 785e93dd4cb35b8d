#pragma once

#include "starling/base/error.h"

namespace starling {

// What a run had left under way has failed: thrown by a later run, or by finish().
class LateError : public Error {
 public:
  using Error::Error;
};

}  // namespace starling
