#pragma once

namespace starling {

// A callback that also derives from this one promises to reach weights, buffers and the optimizer's state through the
// functions of its Run only, anew each time (net(), optimizer(), evaluate(), checkpoint()), which bring them up to
// date. Where updates are made late (dist/strategy/late_updates.h), a run makes them before it calls any other
// callback.
class ReadsThroughRun {
 public:
  virtual ~ReadsThroughRun() = default;
};

}  // namespace starling
