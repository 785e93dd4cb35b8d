#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "starling/ops/def/sharding/sharding.h"
#include "starling/tensor/shape.h"

namespace starling {

// Way from one kind of layout along an axis of the mesh to another. Layouts here may have `blocks`; `ranks` are those
// of the axis.
struct Transition {
  Layout::Kind from, to;
  std::string_view by;  // op that exchanges, or what every rank does alone: nothing, slice, share, zeros
  // Elements that all ranks together send.
  std::int64_t (*sent)(const Shape& whole, Layout from, Layout to, std::int64_t ranks);
};

// Every pair of kinds. None is worth a detour: no two transitions send less than the one between their ends.
std::span<const Transition> transitions();

// Between two layouts; equal ones need nothing. Throws Error if there is none: only sums can be made terms of.
const Transition& transition(Layout from, Layout to);

// Elements that all ranks together send to give a value of this shape another layout. From this follow the choice of
// rules (factors.h) and what `starling inspect layout` tells.
std::int64_t sent_elements(const Shape& whole, Layout from, Layout to, int ranks);

}  // namespace starling
