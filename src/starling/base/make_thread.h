#pragma once

#include <thread>
#include <utility>

#include "starling/base/thread_context.h"

namespace starling {

// Thread whose code runs in `context` from its beginning to its end: thread_context().inherited() if it works for the
// rank of the thread that makes it, {.rank = r} if it is a rank of its own.
template <class F>
std::thread make_thread(const ThreadContext& context, F body) {
  return std::thread([context, body = std::move(body)]() mutable {
    const ThreadContextScope scope(context);
    body();
  });
}

}  // namespace starling
