#include "starling/data/pictures/colour.h"

#include <algorithm>
#include <cmath>

namespace starling::data {
namespace {

float unit(float value) { return std::clamp(value, 0.0F, 1.0F); }

float shade(float r, float g, float b) { return 0.299F * r + 0.587F * g + 0.114F * b; }

struct Planes {
  float *r, *g, *b;
  std::size_t pixels;
  explicit Planes(std::span<float> picture)
      : r(picture.data()), g(r + picture.size() / 3), b(g + picture.size() / 3), pixels(picture.size() / 3) {}
};

}  // namespace

void change_brightness(std::span<float> picture, float factor) {
  for (auto& value : picture) value = unit(value * factor);
}

void change_contrast(std::span<float> picture, std::int64_t channels, float factor) {
  double sum = 0;
  if (channels == 3) {
    const Planes p(picture);
    for (std::size_t i = 0; i < p.pixels; ++i) sum += shade(p.r[i], p.g[i], p.b[i]);
    sum /= static_cast<double>(std::max<std::size_t>(p.pixels, 1));
  } else {
    for (float value : picture) sum += value;
    sum /= static_cast<double>(std::max<std::size_t>(picture.size(), 1));
  }
  const auto mean = static_cast<float>(sum);
  for (auto& value : picture) value = unit(mean + factor * (value - mean));
}

void change_saturation(std::span<float> picture, std::int64_t channels, float factor) {
  if (channels != 3) return;
  const Planes p(picture);
  for (std::size_t i = 0; i < p.pixels; ++i) {
    const float grey = shade(p.r[i], p.g[i], p.b[i]);
    for (float* plane : {p.r, p.g, p.b}) plane[i] = unit(grey + factor * (plane[i] - grey));
  }
}

// HSV rotation: the largest and the smallest value of a pixel stay; the hue decides which channels have them and the
// value of the third.
void turn_hue(std::span<float> picture, std::int64_t channels, float turns) {
  if (channels != 3) return;
  const Planes p(picture);
  for (std::size_t i = 0; i < p.pixels; ++i) {
    const float r = p.r[i], g = p.g[i], b = p.b[i];
    const float high = std::max({r, g, b}), low = std::min({r, g, b}), range = high - low;
    if (range <= 0) continue;
    float sextant = high == r ? (g - b) / range : high == g ? 2 + (b - r) / range : 4 + (r - g) / range;
    sextant += 6 * turns;
    sextant -= 6 * std::floor(sextant / 6);
    // A channel is at its maximum within one sextant of its centre, at its minimum beyond two, linear in between.
    const auto at = [&](float centre) {
      float away = std::abs(sextant - centre);
      away = std::min(away, 6 - away);
      return low + range * unit(2 - away);
    };
    p.r[i] = at(0);
    p.g[i] = at(2);
    p.b[i] = at(4);
  }
}

}  // namespace starling::data
