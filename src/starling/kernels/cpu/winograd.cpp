#include "starling/kernels/cpu/winograd.h"

#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/winograd.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "starling/kernels/cpu/winograd-inl.h"
#include "starling/kernels/cpu/winograd_weights-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling {
namespace HWY_NAMESPACE {

void input_planes(const WinogradImages& s, const float* x, WinogradRange channels, WinogradRange tiles,
                  const WinogradPlanes& to, float* rows) {
  winograd_simd::images_to_planes<4>(s, x, channels, tiles, to, rows);
}
void gradient_planes(const WinogradImages& s, const float* dy, WinogradRange channels, WinogradRange tiles,
                     const WinogradPlanes& to, float* rows) {
  winograd_simd::images_to_planes<2>(s, dy, channels, tiles, to, rows);
}
void output_images(const WinogradImages& s, const WinogradPlanes& from, WinogradRange tiles, const float* bias,
                   bool relu, float* y) {
  winograd_simd::planes_to_images(s, from, tiles, bias, relu, y);
}
void weight_planes(const float* w, std::int64_t in, WinogradRange out, float* planes, std::int64_t plane) {
  winograd_simd::weights_to_planes(w, in, out, planes, plane);
}
void weights_of_planes(const float* planes, std::int64_t plane, std::int64_t in, WinogradRange out, float* w) {
  winograd_simd::planes_to_weights(planes, plane, in, out, w);
}

}  // namespace HWY_NAMESPACE
}  // namespace starling
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling {
HWY_EXPORT(input_planes);
HWY_EXPORT(gradient_planes);
HWY_EXPORT(output_images);
HWY_EXPORT(weight_planes);
HWY_EXPORT(weights_of_planes);

// Four rows; vectors of 16 tiles may run over the end of a row.
std::int64_t winograd_rows(const WinogradImages& images) {
  return 4 * (2 * images.tile_cols + images.pad_w + images.width + 48);
}

void winograd_input(const WinogradImages& images, const float* x, WinogradRange channels, WinogradRange tiles,
                    const WinogradPlanes& to, float* rows) {
  HWY_DYNAMIC_DISPATCH(input_planes)(images, x, channels, tiles, to, rows);
}
void winograd_gradient(const WinogradImages& images, const float* dy, WinogradRange channels, WinogradRange tiles,
                       const WinogradPlanes& to, float* rows) {
  HWY_DYNAMIC_DISPATCH(gradient_planes)(images, dy, channels, tiles, to, rows);
}
void winograd_output(const WinogradImages& images, const WinogradPlanes& from, WinogradRange tiles, const float* bias,
                     bool relu, float* y) {
  HWY_DYNAMIC_DISPATCH(output_images)(images, from, tiles, bias, relu, y);
}
void winograd_weights(const float* w, std::int64_t in, WinogradRange out, float* planes, std::int64_t plane) {
  HWY_DYNAMIC_DISPATCH(weight_planes)(w, in, out, planes, plane);
}
void winograd_weights_back(const float* planes, std::int64_t plane, std::int64_t in, WinogradRange out, float* w) {
  HWY_DYNAMIC_DISPATCH(weights_of_planes)(planes, plane, in, out, w);
}

}  // namespace starling
#endif
