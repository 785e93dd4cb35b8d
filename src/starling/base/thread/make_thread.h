#pragma once

#include <thread>
#include <utility>

#include "starling/base/thread/thread_context.h"

namespace starling {

// Thread whose code runs in `context` from its beginning to its end: thread_context().inherited() if it works for the
// rank of the thread that makes it, for_call() if that thread also waits for it, {.rank = r} if it is a rank of its
// own. `Thread` may be std::jthread, which joins when it is destroyed.
template <class Thread = std::thread, class F>
Thread make_thread(const ThreadContext& context, F body) {
  return Thread([context, body = std::move(body)]() mutable {
    const ThreadContextScope scope(context);
    body();
  });
}

}  // namespace starling
