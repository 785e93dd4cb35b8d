#pragma once

#include "starling/base/error.h"

namespace starling::runtime {

// Failure of background work that an earlier run left unfinished: thrown by a later run or by finish().
class DeferredError : public Error {
 public:
  using Error::Error;
};

}  // namespace starling::runtime
