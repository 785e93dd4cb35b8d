#include "starling/kernels/cpu/conv/winograd.h"

#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/conv/winograd.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "starling/kernels/cpu/conv/winograd-inl.h"
#include "starling/kernels/cpu/conv/winograd_weights-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {

// Calls body with the scheme as a type.
template <class Body>
void with_scheme(WinogradScheme scheme, const Body& body) {
  switch (scheme) {
    case WinogradScheme::k2x3: return body(winograd_simd::Scheme2x3());
    case WinogradScheme::k4x3: return body(winograd_simd::Scheme4x3());
    case WinogradScheme::k2x5: return body(winograd_simd::Scheme2x5());
  }
}

void input_planes(WinogradScheme scheme, const WinogradImages& s, const float* x, WinogradRange channels,
                  WinogradRange tiles, const WinogradPlanes& to, float* memory) {
  with_scheme(scheme, [&](auto kind) {
    winograd_simd::images_to_planes<decltype(kind), false>(s, x, channels, tiles, to, memory);
  });
}
void gradient_planes(WinogradScheme scheme, const WinogradImages& s, const float* dy, WinogradRange channels,
                     WinogradRange tiles, const WinogradPlanes& to, float* memory) {
  with_scheme(scheme, [&](auto kind) {
    winograd_simd::images_to_planes<decltype(kind), true>(s, dy, channels, tiles, to, memory);
  });
}
void output_images(WinogradScheme scheme, const WinogradImages& s, const WinogradPlanes& from, WinogradRange tiles,
                   const float* bias, bool relu, float* y, float* memory) {
  with_scheme(scheme, [&](auto kind) {
    winograd_simd::planes_to_images<decltype(kind)>(s, from, tiles, bias, relu, y, memory);
  });
}
void weight_planes(WinogradScheme scheme, const float* w, const WinogradWeights& from, WinogradRange out, float* planes,
                   std::int64_t plane) {
  with_scheme(scheme,
              [&](auto kind) { winograd_simd::weights_to_planes<decltype(kind)>(w, from, out, planes, plane); });
}
void weights_of_planes(WinogradScheme scheme, const float* planes, std::int64_t plane, std::int64_t in,
                       WinogradRange out, float* w) {
  with_scheme(scheme, [&](auto kind) { winograd_simd::planes_to_weights<decltype(kind)>(planes, plane, in, out, w); });
}

}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling::kernels {
HWY_EXPORT(input_planes);
HWY_EXPORT(gradient_planes);
HWY_EXPORT(output_images);
HWY_EXPORT(weight_planes);
HWY_EXPORT(weights_of_planes);

WinogradSizes winograd_sizes(WinogradScheme scheme) {
  switch (scheme) {
    case WinogradScheme::k4x3: return {4, 3};
    case WinogradScheme::k2x5: return {2, 5};
    default: return {2, 3};
  }
}

// Scratch for a padded line and the pixels of a channel sorted by their position in a tile, each as often as tiles in a
// row overlap it. Outputs take less. Vectors of 16 tiles may run over the end.
std::int64_t winograd_memory(WinogradScheme scheme, const WinogradImages& s) {
  const WinogradSizes sizes = winograd_sizes(scheme);
  const std::int64_t line = sizes.out * s.tile_cols + s.pad_w + s.width + 80;
  const std::int64_t pitch = (s.tile_rows + sizes.tile() / sizes.out) * s.tile_cols + 32;
  return line + sizes.out * sizes.tile() * pitch;
}

void winograd_input(WinogradScheme scheme, const WinogradImages& images, const float* x, WinogradRange channels,
                    WinogradRange tiles, const WinogradPlanes& to, float* memory) {
  HWY_DYNAMIC_DISPATCH(input_planes)(scheme, images, x, channels, tiles, to, memory);
}
void winograd_gradient(WinogradScheme scheme, const WinogradImages& images, const float* dy, WinogradRange channels,
                       WinogradRange tiles, const WinogradPlanes& to, float* memory) {
  HWY_DYNAMIC_DISPATCH(gradient_planes)(scheme, images, dy, channels, tiles, to, memory);
}
void winograd_output(WinogradScheme scheme, const WinogradImages& images, const WinogradPlanes& from,
                     WinogradRange tiles, const float* bias, bool relu, float* y, float* memory) {
  HWY_DYNAMIC_DISPATCH(output_images)(scheme, images, from, tiles, bias, relu, y, memory);
}
void winograd_weights(WinogradScheme scheme, const float* w, const WinogradWeights& from, WinogradRange out,
                      float* planes, std::int64_t plane) {
  HWY_DYNAMIC_DISPATCH(weight_planes)(scheme, w, from, out, planes, plane);
}
void winograd_weights_back(WinogradScheme scheme, const float* planes, std::int64_t plane, std::int64_t in,
                           WinogradRange out, float* w) {
  HWY_DYNAMIC_DISPATCH(weights_of_planes)(scheme, planes, plane, in, out, w);
}

}  // namespace starling::kernels
#endif
