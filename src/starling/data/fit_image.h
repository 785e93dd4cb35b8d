#pragma once

#include <cstdint>

#include "starling/data/formats/image.h"

namespace starling {

enum class Fit {
  crop,     // fills the frame and keeps proportions; what juts out is cut off evenly
  pad,      // all of the picture inside the frame, black around it
  stretch,  // proportions change
};

// Brings a picture to a size without aliasing and writes it as planes [channels, height, width].
void fit_image(const Image& image, Fit fit, std::int64_t height, std::int64_t width, std::uint8_t* planes);

}  // namespace starling
