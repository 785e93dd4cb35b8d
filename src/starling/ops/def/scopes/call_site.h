#pragma once

#include <string>

#include "starling/base/source_location.h"

namespace starling {

// Source line of the user's call. Ops that only some callers may use (their shapes depend on values) take it as a
// default argument and keep it in a scope, so that an interpreter that refuses the op can name it.
class CallSite {
 public:
  explicit CallSite(SourceLocation where);
  ~CallSite();
  CallSite(const CallSite&) = delete;
  CallSite& operator=(const CallSite&) = delete;
  static std::string current();  // "train.cpp:42"; empty if unknown

 private:
  const SourceLocation* before_;
  SourceLocation where_;
};

}  // namespace starling
