#pragma once

#include <cstdint>
#include <span>

namespace starling::data {

// Colour changes of an image [channels, pixels] with values from 0 to 1; results are clamped to that range. Saturation
// and hue leave images of one channel unchanged.

void change_brightness(std::span<float> picture, float factor);  // factor 1 changes nothing
void change_contrast(std::span<float> picture, std::int64_t channels, float factor);
void change_saturation(std::span<float> picture, std::int64_t channels, float factor);
void turn_hue(std::span<float> picture, std::int64_t channels, float turns);  // 1 is a full turn and changes nothing

}  // namespace starling::data
