#pragma once

#include <string>

#include "starling/train/monitor/plot/figure.h"

namespace starling {

struct TextPlotOptions {
  int columns = 80;
  int rows = 14;  // of a panel's inside
  bool colour = false;
  bool unicode = true;  // dots of braille characters, eight a cell; false: letters and ASCII frames
};

// The figure as text, one panel below the other. Several runs differ in colour, or without colours in the letter that
// their curves are made of.
std::string to_text(const Figure& figure, const TextPlotOptions& options);

}  // namespace starling
