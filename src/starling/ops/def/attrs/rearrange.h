#pragma once

#include "starling/ops/def/attrs.h"

namespace starling::op {

struct TileAttrs {
  Shape reps{};  // aligned with the last axes; missing ones are 1, extra ones add leading axes
  static AttrFields fields() { return {field("reps", &TileAttrs::reps)}; }
};
struct RepeatAttrs {
  std::int64_t repeats = 1;
  std::int64_t axis = -1;
  static AttrFields fields() { return {field("repeats", &RepeatAttrs::repeats), field("axis", &RepeatAttrs::axis)}; }
};
struct FlipAttrs {
  Shape axes{};
  static AttrFields fields() { return {field("axes", &FlipAttrs::axes)}; }
};
struct RollAttrs {
  Shape shifts{};
  Shape axes{};  // one per shift
  static AttrFields fields() { return {field("shifts", &RollAttrs::shifts), field("axes", &RollAttrs::axes)}; }
};

// Shift of each axis of a roll, in [0, size).
Shape rolled_by(const RollAttrs& attrs, const Shape& shape);
// Repetitions of each axis of a tiled tensor of the given rank.
Shape tile_reps(const Shape& reps, int rank);

}  // namespace starling::op
