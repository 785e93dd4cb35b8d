#pragma once

#include "starling/base/error.h"

namespace starling::cli {

// What the program ends with.
inline constexpr int kOk = 0;
inline constexpr int kFailure = 1;
inline constexpr int kUsage = 2;  // the command line or the job file is wrong
inline constexpr int kInterrupted = 130;

// Thrown when what the user wrote is at fault, not what happened.
class UsageError : public Error {
 public:
  using Error::Error;
};

// Calls f; an Error it throws becomes a UsageError.
template <class F>
auto as_usage(F&& f) {
  try {
    return f();
  } catch (const Error& e) {
    throw UsageError(e.what());
  }
}

}  // namespace starling::cli
