#pragma once

#include <string>

#include "starling/train/monitor/plot/figure.h"

namespace starling::train {

// SVG of a figure: one panel per metric, stacked, with a legend if there are several runs. Runs differ in colour (also
// for the colour-blind), dashes and markers, so that black-and-white print works.
std::string to_svg(const Figure& figure);

}  // namespace starling::train
