#include "starling/ops/api/interpolate.h"

#include <algorithm>
#include <cmath>

#include "starling/base/error.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

Tensor interpolate(const Tensor& x, const op::InterpolateAttrs& attrs) {
  return apply1(named_op<"interpolate">(), {x}, attrs);
}

std::vector<op::PixelMix> op::pixel_mixes(std::int64_t in, std::int64_t out, double scale, Symbol mode,
                                          bool align_corners) {
  const bool nearest = mode.str() == "nearest";
  const auto last = static_cast<double>(in - 1);
  double distance = scale > 0 ? 1 / scale : static_cast<double>(in) / static_cast<double>(out);
  if (align_corners) distance = out > 1 ? last / static_cast<double>(out - 1) : 0;
  std::vector<op::PixelMix> mixes;
  for (std::int64_t i = 0; i < out; ++i) {
    const auto pixel = static_cast<double>(i);
    if (nearest) {
      const std::int64_t at =
          scale > 0 ? static_cast<std::int64_t>(std::min(std::floor(pixel * distance), last)) : i * in / out;
      mixes.push_back({at, at, 0});
      continue;
    }
    const double at = std::clamp(align_corners ? pixel * distance : (pixel + 0.5) * distance - 0.5, 0.0, last);
    const auto low = static_cast<std::int64_t>(at);
    mixes.push_back({low, std::min(low + 1, in - 1), at - static_cast<double>(low)});
  }
  return mixes;
}

namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 31;

void check_images(const InferCall& call, const Shape& x) {
  check_size(x, 1, call.op.name.c_str());
  check(x.rank() == 4 && x[2] >= 1 && x[3] >= 1 && x[2] < kMost && x[3] < kMost,
        "[{}] expected x [n, c, h, w] with pixels, got {}", call.op.name, to_string(x));
}

void check_rule(const InferCall& call, double scale_h, double scale_w, Symbol mode, bool align_corners) {
  const std::string& name = mode.str();
  check(name == "nearest" || name == "bilinear", "[{}] expected a mode of nearest or bilinear, got '{}'", call.op.name,
        name);
  check(!align_corners || name == "bilinear", "[{}] expected align_corners with bilinear only, got it with '{}'",
        call.op.name, name);
  for (double scale : {scale_h, scale_w}) {
    check(scale == 0 || (scale >= 1e-9 && scale <= 1e9), "[{}] expected scales in [1e-9, 1e9], or 0 for none, got {}",
          call.op.name, scale);
  }
}

std::int64_t resized(const InferCall& call, std::int64_t in, std::int64_t size, double scale, bool by_size) {
  const double scaled = std::floor(static_cast<double>(in) * scale);
  check(by_size || (scale > 0 && scaled >= 1 && scaled < static_cast<double>(kMost)),
        "[{}] expected a size, or a scale that gives 1 to 2^31 pixels, got a scale of {} for {}", call.op.name, scale,
        in);
  check(!by_size || (size >= 1 && size < kMost), "[{}] expected sizes in [1, 2^31), got {}", call.op.name, size);
  return by_size ? size : static_cast<std::int64_t>(scaled);
}

Types infer_interpolate(const InferCall& call) {
  rules::expect_float(call);
  const auto& a = call.attrs.as<op::InterpolateAttrs>();
  const Shape& x = call.in[0].shape;
  check_images(call, x);
  check_rule(call, a.scale_h, a.scale_w, a.mode, a.align_corners);
  const bool by_size = a.size != Pair{0, 0};
  return {TensorType{call.in[0].dtype,
                     {x[0], x[1], resized(call, x[2], a.size[0], a.scale_h, by_size),
                      resized(call, x[3], a.size[1], a.scale_w, by_size)}}};
}

Types infer_backward(const InferCall& call) {
  rules::expect_float(call);
  const auto& a = call.attrs.as<op::InterpolateGradAttrs>();
  check_images(call, a.shape);
  check_rule(call, a.scale_h, a.scale_w, a.mode, a.align_corners);
  const Shape& dy = call.in[0].shape;
  check(dy.rank() == 4 && dy[0] == a.shape[0] && dy[1] == a.shape[1] && dy[2] >= 1 && dy[3] >= 1 && dy[2] < kMost &&
            dy[3] < kMost,
        "[{}] expected dy [{}, {}, h, w] with pixels, got {}", call.op.name, a.shape[0], a.shape[1], to_string(dy));
  return {TensorType{call.in[0].dtype, a.shape}};
}

struct Sample {
  Shape x;
  Shape y;
  op::InterpolateAttrs attrs;
};
const std::vector<Sample>& samples() {
  const Symbol nearest("nearest"), bilinear("bilinear");
  static const std::vector<Sample> kSamples = {{{2, 3, 4, 4}, {2, 3, 8, 8}, {{8, 8}, 0, 0, nearest}},
                                               {{1, 2, 5, 7}, {1, 2, 3, 10}, {{3, 10}, 0, 0, nearest}},
                                               {{1, 1, 4, 6}, {1, 1, 6, 15}, {{0, 0}, 1.5, 2.5, nearest}},
                                               {{1, 2, 4, 4}, {1, 2, 8, 8}, {{8, 8}, 0, 0, bilinear}},
                                               {{1, 1, 5, 6}, {1, 1, 3, 9}, {{3, 9}, 0, 0, bilinear, true}},
                                               {{1, 2, 4, 5}, {1, 2, 6, 7}, {{0, 0}, 1.6, 1.5, bilinear}},
                                               {{0, 2, 4, 4}, {0, 2, 2, 2}, {{2, 2}, 0, 0, bilinear}},
                                               {{1, 1, 3, 3}, {1, 1, 1, 1}, {{1, 1}, 0, 0, bilinear, true}},
                                               {{1, 1, 2, 9}, {1, 1, 3, 40}, {{3, 40}, 0, 0, bilinear}},
                                               {{1, 1, 6, 6}, {1, 1, 3, 3}, {{0, 0}, 0.5, 0.6, bilinear}}};
  return kSamples;
}

op::InterpolateGradAttrs grad_attrs(const Shape& shape, const op::InterpolateAttrs& a) {
  return {shape, a.scale_h, a.scale_w, a.mode, a.align_corners};
}

}  // namespace

void register_ops_interpolate(OpRegistry& ops) {
  const auto by_sample = [](const ShardCall& call) { return rules::shard_batch(call, 1); };
  ops.add({.name = "interpolate",
           .doc = "Images in another size, by the nearest pixel or by mixing the pixels around.",
           .inputs = {"x"},
           .attrs = &attr_type<op::InterpolateAttrs>(),
           .infer = infer_interpolate,
           .gradient =
               [](const GradCall& c) {
                 return TensorList{apply1(named_op<"interpolate_backward">(), {c.grads[0]},
                                          grad_attrs(c.in[0].shape(), c.attrs.as<op::InterpolateAttrs>()))};
               },
           .shard = by_sample,
           .cases =
               [] {
                 std::vector<OpCase> cases;
                 for (const auto& s : samples()) cases.push_back({{{.shape = s.x}}, s.attrs});
                 return cases;
               },
           .saves = kSavesNothing,
           .cost = costs::each(1),
           .precision = Width::as_given});
  ops.add({.name = "interpolate_backward",
           .doc = "dy given back to the pixels that made each one.",
           .inputs = {"dy"},
           .outputs = {"dx"},
           .attrs = &attr_type<op::InterpolateGradAttrs>(),
           .infer = infer_backward,
           .gradient =
               [](const GradCall& c) {
                 const auto& a = c.attrs.as<op::InterpolateGradAttrs>();
                 const Shape& dy = c.in[0].shape();
                 return TensorList{
                     interpolate(c.grads[0], {{dy[2], dy[3]}, a.scale_h, a.scale_w, a.mode, a.align_corners})};
               },
           .shard = by_sample,
           .cases =
               [] {
                 std::vector<OpCase> cases;
                 for (const auto& s : samples()) cases.push_back({{{.shape = s.y}}, grad_attrs(s.x, s.attrs)});
                 return cases;
               },
           .saves = kSavesNothing,
           .cost = costs::each(1),
           .precision = Width::wide});
}

}  // namespace starling
