#pragma once

#include <cstdint>
#include <span>

namespace starling {

// Changes of colour on a picture of planes [channels][pixels] with values of 0 to 1; results are cut to 0…1. A picture
// of one channel has no saturation and no hue: those leave it alone.

void change_brightness(std::span<float> picture, float factor);  // 1: as it was
void change_contrast(std::span<float> picture, std::int64_t channels, float factor);
void change_saturation(std::span<float> picture, std::int64_t channels, float factor);
void turn_hue(std::span<float> picture, std::int64_t channels, float turns);  // 1: once around, as it was

}  // namespace starling
