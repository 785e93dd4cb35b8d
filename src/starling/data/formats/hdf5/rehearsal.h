#pragma once

#include <chrono>
#include <string>

#include "starling/base/function_ref.h"

namespace starling::data {

// Runs `work` in a child process, since libhdf5 may crash or loop on a damaged file, and throws "[hdf5] <file>: …" if
// the child does not live to the end of it, or what `work` throws there: this process then never touches the file.
// The child has this thread only, prints nothing and is killed after the deadline. Call it under Hdf5Library.
void rehearse(const std::string& file, FunctionRef<void()> work, std::chrono::seconds deadline);

inline constexpr std::chrono::seconds kRehearsal{120};

// Runs `work` after it was rehearsed.
template <class Work>
auto rehearsed(const std::string& file, Work&& work) {
  rehearse(
      file, [&] { static_cast<void>(work()); }, kRehearsal);
  return work();
}

}  // namespace starling::data
