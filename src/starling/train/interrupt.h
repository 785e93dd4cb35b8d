#pragma once

#include <functional>

namespace starling {

// For TrainerOptions::stop: SIGINT (Ctrl-C) and SIGTERM ask a run to save and return; a second one kills as usual.
// Installs the handlers of this process.
std::function<bool()> stop_on_signals();

}  // namespace starling
