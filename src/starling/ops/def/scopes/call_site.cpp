#include "starling/ops/def/scopes/call_site.h"

#include "starling/base/caller.h"
#include "starling/base/thread/thread_context.h"

namespace starling {

// The outermost scope is the user's: library functions may call each other within it.
CallSite::CallSite(SourceLocation where) : before_(thread_context().call_site), where_(where) {
  if (!before_) thread_context().call_site = &where_;
}
CallSite::~CallSite() { thread_context().call_site = before_; }

std::string CallSite::current() {
  const SourceLocation* outermost = thread_context().call_site;
  return outermost ? caller(*outermost) : foreign_caller();
}

}  // namespace starling
