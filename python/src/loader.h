#pragma once

#include <nanobind/nanobind.h>
#include <unistd.h>

#include <memory>

#include "starling/base/error.h"
#include "starling/data/loading/loader.h"

namespace starling::python {

namespace nb = nanobind;

// A loader whose threads may ask Python for samples: they are waited for without the GIL. In a forked process there are
// no such threads, and what they held stays held: there a loader is let go of, not ended.
struct PyLoader {
  std::unique_ptr<Loader> loader;
  pid_t owner = ::getpid();

  Loader& get() const {
    check(loader != nullptr, "[data] expected a loader that was not stopped");
    check(::getpid() == owner,
          "[data] expected a loader of this process, got one of the process that it was forked from");
    return *loader;
  }
  void stop() {
    if (::getpid() != owner) return static_cast<void>(loader.release());
    const nb::gil_scoped_release release;
    loader.reset();
  }
  ~PyLoader() {
    if (loader) stop();
  }
  PyLoader(std::unique_ptr<Loader> made) : loader(std::move(made)) {}
  PyLoader(const PyLoader&) = delete;
};

}  // namespace starling::python
