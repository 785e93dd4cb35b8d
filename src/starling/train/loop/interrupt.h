#pragma once

#include <functional>

#include "starling/base/error.h"

namespace starling {

// Thrown if a run is asked to stop before there is anything to save.
class Interrupted : public Error {
 public:
  using Error::Error;
};

// Stop function for TrainerOptions::stop: SIGINT (Ctrl-C) and SIGTERM ask a run to save and return; a second signal
// kills as usual. Installs signal handlers in this process.
std::function<bool()> stop_on_signals();

}  // namespace starling
