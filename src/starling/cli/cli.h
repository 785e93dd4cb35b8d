#pragma once

#include <string>
#include <utility>
#include <vector>

#include "starling/base/error.h"

namespace starling::cli {

// Exit codes.
inline constexpr int kOk = 0;
inline constexpr int kFailure = 1;
inline constexpr int kUsage = 2;  // the command line or the job file is wrong
inline constexpr int kInterrupted = 130;

// Error in the command line or a file of the user, as opposed to a failure at run time.
class UsageError : public Error {
 public:
  using Error::Error;
};

// Everything that is wrong with a job file, told line by line.
class JobErrors : public UsageError {
 public:
  explicit JobErrors(std::vector<std::string> all) : UsageError(all.at(0)), all_(std::move(all)) {}
  const std::vector<std::string>& all() const { return all_; }

 private:
  std::vector<std::string> all_;
};

// Calls f and rethrows its Errors as UsageErrors.
template <class F>
auto as_usage(F&& f) {
  try {
    return f();
  } catch (const Error& e) {
    throw UsageError(e.what());
  }
}

}  // namespace starling::cli
