#include "starling/base/thread/thread_context.h"

namespace starling {

constinit thread_local ThreadContext detail::current_context;

ThreadContext ThreadContext::inherited() const {
  ThreadContext made;
  made.rank = rank;
  return made;
}

ThreadContext ThreadContext::for_call() const {
  ThreadContext made = inherited();
  made.stop = stop;
  return made;
}

ThreadContextScope::ThreadContextScope(const ThreadContext& context) : before_(thread_context()) {
  thread_context() = context;
}
ThreadContextScope::~ThreadContextScope() { thread_context() = before_; }

}  // namespace starling
