#pragma once

namespace starling::train {

// Marker of callbacks that access weights, buffers and optimizer state only through the functions of Run, anew each
// time (net(), optimizer(), evaluate(), checkpoint()), which first complete pending updates. With deferred updates
// (dist/strategy/deferred_updates.h), a run completes them before it calls any other callback.
class ReadsThroughRun {
 public:
  virtual ~ReadsThroughRun() = default;
};

}  // namespace starling::train
