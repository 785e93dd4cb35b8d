#pragma once

#include "starling/base/error.h"

namespace starling {

// Memory of a device that was asked for and is not there: an Error that callers may tell from misuse.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

}  // namespace starling
