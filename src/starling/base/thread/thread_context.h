#pragma once

#include <atomic>
#include <string>

namespace starling {

struct CommWorld;
struct Device;
struct ReleasedNodes;
struct SiteTable;
struct SourceLocation;
class Interpreter;
class TripScope;
namespace nn {
class DeferredWeights;
}
namespace optim {
class DeferredState;
}

// Circumstances in which a thread's code runs, as set by the scopes that it is in. Each member belongs to the file
// named beside it, which alone reads and writes it; they stand here together, so that one place says what a new thread
// begins with. Caches and scratch memory of a thread are no circumstances: they stay where they are used.
struct ThreadContext {
  int rank = -1;                              // base/error.h: rank that errors carry
  int threads = 0;                            // base/parallel.h: num_threads(); 0: not asked for yet
  bool in_region = false;                     // base/parallel.h: running a piece of a parallel region
  const std::atomic<bool>* stop = nullptr;    // base/thread/stop_request.h: asks to stop what runs; null: none does
  bool grad = true;                           // ops/def/apply.h
  bool reference_only = false;                // kernels/eager.h
  int origin_value = -1;                      // autograd/backward_pass.cpp: traced value whose gradient is being made
  Interpreter* interpreter = nullptr;         // tensor/interpreter.h: top of the stack; null: the eager one
  const CommWorld* world = nullptr;           // ops/def/scopes/comm_world.h; null: a world of one
  const Device* device = nullptr;             // ops/api/device_scope.h
  const std::string* scope = nullptr;         // ops/def/scopes/scope.h: path, interned; null: the top
  TripScope* trip = nullptr;                  // ops/def/scopes/loop_scope.h: of the innermost loop
  const SourceLocation* call_site = nullptr;  // ops/def/scopes/call_site.h
  SiteTable* sites = nullptr;         // ops/def/scopes/scope.cpp: counts of calls by scope; null: the thread's own
  ReleasedNodes* released = nullptr;  // autograd/grad_node.cpp: of the history being destroyed
  const optim::DeferredState* deferred = nullptr;  // optim/deferred_state.h: the innermost
  nn::DeferredWeights* weights = nullptr;          // nn/deferred_weights.h: the innermost; null: none, or paused

  // Context in which a thread made by this one begins: it works for the same rank. Scopes lie on the stack of the
  // thread that opened them and may end before the other thread does, so nothing else is handed on.
  ThreadContext inherited() const;
  // Context of a thread that works for one call of this one, which waits for it: a request to stop that call, whose
  // scope outlives the work, is one to stop the work.
  ThreadContext for_call() const;
};

namespace detail {
extern constinit thread_local ThreadContext current_context;  // a constant at first: read without a check
}

inline ThreadContext& thread_context() { return detail::current_context; }

// Scope guard: this thread's code runs in `context` while the object lives.
class ThreadContextScope {
 public:
  explicit ThreadContextScope(const ThreadContext& context);
  ~ThreadContextScope();
  ThreadContextScope(const ThreadContextScope&) = delete;
  ThreadContextScope& operator=(const ThreadContextScope&) = delete;

 private:
  ThreadContext before_;
};

}  // namespace starling
