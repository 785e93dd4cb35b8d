#pragma once

#include "starling/base/error.h"

namespace starling {

// Operands or attributes that an op does not take: wrong shapes, dtypes, sizes. Thrown before anything is computed.
class ArgumentError : public Error {
 public:
  using Error::Error;
};

}  // namespace starling
