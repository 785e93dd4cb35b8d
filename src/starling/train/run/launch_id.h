#pragma once

#include <string>

namespace starling::train {

// Name of the launch that this process belongs to, the same in all its restarts; empty: not launched. Checkpoints carry
// it, so that a restart can tell those of before the launch from its own.
std::string launch_id();

// True after a restart of the launch.
bool launched_again();

}  // namespace starling::train
