#pragma once

#include <string>

#include "starling/train/monitor/plot/figure.h"

namespace starling {

// A picture that any browser shows: one panel a metric below the other, a legend where there is more than one run.
// Runs differ in colour (told apart by the colour-blind too), in dashes and in marks, so that print in black and white
// will do.
std::string to_svg(const Figure& figure);

}  // namespace starling
