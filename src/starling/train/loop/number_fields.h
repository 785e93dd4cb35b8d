#pragma once

#include "starling/train/objective.h"

namespace starling::train {

// The objective on samples of numbers: those of f64, and targets of f64, become f32 where the network begins, unless
// its parameters are of f64; bytes become 0 to 1 of f32, unless the network takes bytes. Jobs convert samples likewise.
// Others, such as token ids, are left alone.
ObjectivePtr reading_numbers(ObjectivePtr objective);

}  // namespace starling::train
