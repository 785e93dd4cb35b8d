#include "starling/ops/def/call_site.h"

namespace starling {
namespace {

thread_local const SourceLocation* outermost = nullptr;

}  // namespace

// The outermost scope is the user's: library functions may call each other within it.
CallSite::CallSite(SourceLocation where) : before_(outermost), where_(where) {
  if (!outermost) outermost = &where_;
}
CallSite::~CallSite() { outermost = before_; }

std::string CallSite::current() {
  return outermost ? std::string(outermost->file_name()) + ":" + std::to_string(outermost->line()) : std::string();
}

}  // namespace starling
