#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <utility>

#include "starling/base/error.h"
#include "starling/base/thread/stop_request.h"
#include "starling/dist/comm/comm.h"

namespace starling::python {

namespace nb = nanobind;

// While it lives on the main thread, Ctrl-C ends what this thread runs and the waits for other ranks of `comm` (null:
// none), unless the program has a handler of its own. On other threads it does nothing, since Python sends Ctrl-C to
// the main one. Not for use with the GIL held.
class Interruptible {
 public:
  explicit Interruptible(Comm* comm);
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

 private:
  bool outermost_ = false;
  std::optional<StopRequestScope> scope_{};
};

Comm* comm_of_thread();  // ranks that this thread's collectives go to; null: none were joined

void raise_pending_signal();  // throws what handlers of signals raise, such as KeyboardInterrupt; needs the GIL

// f() without the GIL, ended by Ctrl-C. Callbacks into Python take the GIL themselves.
template <class F>
auto without_gil(F&& f, Comm* comm = comm_of_thread()) {
  try {
    const nb::gil_scoped_release release;
    const Interruptible scope(comm);
    return std::forward<F>(f)();
  } catch (const Error&) {
    raise_pending_signal();
    throw;
  }
}

}  // namespace starling::python
