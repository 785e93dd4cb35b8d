#pragma once

#include <cstdint>

#include "starling/data/formats/image.h"

namespace starling::data {

enum class Fit {
  crop,     // scale to fill the frame, keeping the aspect ratio, and crop the rest evenly
  pad,      // scale to fit inside the frame, keeping the aspect ratio, with black borders
  stretch,  // scale each axis to the frame
};

// Resizes an image without aliasing and writes it as [channels, height, width].
void fit_image(const Image& image, Fit fit, std::int64_t height, std::int64_t width, std::uint8_t* planes);

}  // namespace starling::data
