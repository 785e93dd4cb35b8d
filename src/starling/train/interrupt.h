#pragma once

#include <functional>

#include "starling/base/error.h"

namespace starling {

// Thrown where a run was asked to stop before there was anything to save.
class Interrupted : public Error {
 public:
  using Error::Error;
};

// For TrainerOptions::stop: SIGINT (Ctrl-C) and SIGTERM ask a run to save and return; a second one kills as usual.
// Installs the handlers of this process.
std::function<bool()> stop_on_signals();

}  // namespace starling
