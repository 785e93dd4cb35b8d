#pragma once

#include <string>

#include "starling/train/monitor/plot/figure.h"

namespace starling::train {

struct TextPlotOptions {
  int columns = 80;
  int rows = 14;  // height of a panel's plot area
  bool colour = false;
  bool unicode = true;  // braille dots, eight per cell; false: letters and ASCII frames
};

// A figure as text, one panel below the other. Runs differ in colour, or without colours in the letter that draws their
// curves.
std::string to_text(const Figure& figure, const TextPlotOptions& options);

}  // namespace starling::train
