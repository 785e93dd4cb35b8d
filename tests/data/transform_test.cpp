#include "starling/data/transform.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "byte_helpers.h"
#include "starling/data/pictures/affine.h"
#include "starling/data/pictures/colour.h"
#include "starling/data/pictures/resample.h"
#include "starling/data/transform_pipeline.h"
#include "starling/data/transform_scratch.h"
#include "testing/temporary_folder.h"

namespace starling::data {
namespace {

using testing::error_of;
using testing::golden_arrays;
using Values = std::vector<double>;

TransformStep step(const std::string& yaml) {
  return read_transforms(ConfigNode::parse("[" + yaml + "]", "job.yaml")).at(0).make();
}

std::vector<TransformStep> steps(const std::string& yaml) {
  std::vector<TransformStep> all;
  for (const auto& chosen : read_transforms(ConfigNode::parse(yaml, "job.yaml"))) all.push_back(chosen.make());
  return all;
}

// Applies a list of transforms to one sample, an image and a label.
Tensor apply(const std::string& yaml, const Tensor& image, const SampleKey& key = {}) {
  const TransformPipeline pipeline(steps(yaml), {{image.dtype(), image.shape()}, {DType::i64, {}}});
  const auto batched = [](const Tensor& t) {
    Shape shape = t.shape();
    shape.insert(0, 1);
    return view_of(t, shape, contiguous_strides(shape), 0);
  };
  Tensor out = empty(pipeline.fields()[0].shape, pipeline.fields()[0].dtype);
  const Tensor label = from_doubles(Values{7}, {1}, DType::i64);
  Tensor label_out = empty({1}, DType::i64);
  const Tensor in[] = {batched(image), label}, made[] = {batched(out), label_out};
  TransformPipeline::Scratch scratch;
  pipeline.apply(in, made, std::vector<SampleKey>{key}, scratch);
  EXPECT_EQ(label_out.to_vector(), Values{7});
  return out;
}

Tensor counting(const Shape& shape, DType dtype = DType::f32) {
  Values values(static_cast<std::size_t>(shape.numel()));
  std::iota(values.begin(), values.end(), 1);
  return from_doubles(values, shape, dtype);
}

TEST(Resampling, EqualsPyTorch) {
  const auto arrays = golden_arrays("resized.npz");
  const Tensor& input = arrays.at("input");
  int compared = 0;
  for (const auto& [name, expected] : arrays) {
    if (name == "input") continue;
    const ResizeMode mode = name.starts_with("bilinear") ? ResizeMode::bilinear
                            : name.starts_with("smooth") ? ResizeMode::smooth
                                                         : ResizeMode::area;
    const std::int64_t height = expected.size(1), width = expected.size(2);
    const Resampler resampler(mode, 13, 17, height, width);
    Tensor made = empty(expected.shape());
    resampler.apply(input.data<float>(), PixelFormat::planes(3, 13, 17), made.data<float>(),
                    PixelFormat::planes(3, height, width));
    for (std::int64_t i = 0; i < made.numel(); ++i) {
      ASSERT_NEAR(made.data<float>()[i], expected.data<float>()[i], 2e-6) << name << " " << i;
    }
    ++compared;
  }
  EXPECT_EQ(compared, 15);
}

TEST(Resampling, RefusesPicturesWhoseRowsWouldFillTheMemory) {
  EXPECT_THROW(Resampler(ResizeMode::smooth, 1 << 20, 1, 256, 256), Error);
  EXPECT_NO_THROW(Resampler(ResizeMode::smooth, 1 << 18, 1, 256, 256));
}

TEST(Resampling, OfBytesIsThatOfFloatsRounded) {
  const auto arrays = golden_arrays("resized.npz");
  const Tensor& input = arrays.at("input");
  std::vector<std::uint8_t> bytes;
  std::vector<float> floats;
  for (std::int64_t i = 0; i < input.numel(); ++i) {
    bytes.push_back(static_cast<std::uint8_t>(input.data<float>()[i] * 255));
    floats.push_back(bytes.back());
  }
  const Resampler resampler(ResizeMode::smooth, 13, 17, 6, 20);
  std::vector<std::uint8_t> made(3 * 6 * 20);
  std::vector<float> exact(made.size());
  const auto in = PixelFormat::planes(3, 13, 17), out = PixelFormat::planes(3, 6, 20);
  resampler.apply(bytes.data(), in, made.data(), out);
  resampler.apply(floats.data(), in, exact.data(), out);
  for (std::size_t i = 0; i < made.size(); ++i) EXPECT_NEAR(made[i], exact[i], 0.501);
}

TEST(Warping, EqualsGridSampleOfPyTorch) {
  const auto arrays = golden_arrays("affine.npz");
  const Tensor& input = arrays.at("input");
  const std::map<std::string, Affine> cases = {
      {"turn", {.angle = 20}}, {"all", {.angle = 20, .scale = 1.1, .shear = 5, .shift_x = 2, .shift_y = -1}}};
  for (const auto& [name, affine] : cases) {
    Tensor made = empty(input.shape());
    warp(input.data<float>(), made.data<float>(), 2, 11, 15, affine, 0.0F);
    for (std::int64_t i = 0; i < made.numel(); ++i) {
      ASSERT_NEAR(made.data<float>()[i], arrays.at(name).data<float>()[i], 2e-5) << name << " " << i;
    }
  }
}

// Converts Pillow's [height, width, 3] bytes to planes of 0 to 1.
std::vector<float> planes(const Tensor& image, float scale) {
  std::vector<float> values;
  const std::int64_t pixels = image.size(0) * image.size(1);
  const auto all = image.to_vector();
  for (std::int64_t c = 0; c < 3; ++c) {
    for (std::int64_t i = 0; i < pixels; ++i)
      values.push_back(static_cast<float>(all[static_cast<std::size_t>(i * 3 + c)]) * scale);
  }
  return values;
}

TEST(Colours, ChangeAsPillowChangesThem) {
  const auto arrays = golden_arrays("colours.npz");
  for (const float factor : {0.6F, 1.3F}) {
    const std::string text = factor < 1 ? "0.6" : "1.3";
    for (const std::string what : {"brightness", "contrast", "saturation"}) {
      auto picture = planes(arrays.at("input"), 1 / 255.0F);
      if (what == "brightness") change_brightness(picture, factor);
      if (what == "contrast") change_contrast(picture, 3, factor);
      if (what == "saturation") change_saturation(picture, 3, factor);
      const auto expected = planes(arrays.at(what + "_" + text), 1 / 255.0F);
      for (std::size_t i = 0; i < picture.size(); ++i) {
        ASSERT_NEAR(picture[i], expected[i], 1.6F / 255)
            << what << " " << i;  // Pillow truncates, and its mean is a byte
      }
    }
  }
  auto picture = planes(arrays.at("input"), 1 / 255.0F);
  turn_hue(picture, 3, 0.1F);
  const auto expected = planes(arrays.at("hue_0.1"), 1);
  for (std::size_t i = 0; i < picture.size(); ++i) ASSERT_NEAR(picture[i], expected[i], 1e-5) << i;
}

TEST(Transforms, DrawsAreAFunctionOfTheKey) {
  const SampleKey key{.seed = 5, .epoch = 2, .sample = 9};
  const auto numbers = [](SampleKey k) {
    Draws draws(k);
    return Values{draws.uniform(), draws.normal(), static_cast<double>(draws.below(1000)), draws.beta(0.3, 0.7)};
  };
  EXPECT_EQ(numbers(key), numbers(key));
  for (auto other : {SampleKey{6, 2, 9, 0}, SampleKey{5, 3, 9, 0}, SampleKey{5, 2, 10, 0}, SampleKey{5, 2, 9, 1}}) {
    EXPECT_NE(numbers(key), numbers(other));
  }
}

TEST(Transforms, DrawsFollowTheirDistributions) {
  double uniform = 0, beta = 0, beta_squares = 0, normal_squares = 0;
  std::vector<int> counts(3);
  constexpr int kSamples = 20'000;
  for (int i = 0; i < kSamples; ++i) {
    Draws draws({.seed = 1, .epoch = 0, .sample = i});
    uniform += draws.uniform();
    ++counts[static_cast<std::size_t>(draws.below(3))];
    const double x = draws.normal(), b = draws.beta(0.4, 0.4);
    normal_squares += x * x;
    beta += b;
    beta_squares += (b - 0.5) * (b - 0.5);
  }
  EXPECT_NEAR(uniform / kSamples, 0.5, 0.01);
  EXPECT_NEAR(normal_squares / kSamples, 1, 0.05);
  EXPECT_NEAR(beta / kSamples, 0.5, 0.015);
  EXPECT_NEAR(beta_squares / kSamples, 0.25 / 1.8, 0.005);  // 1 / (4 (2a + 1))
  for (int count : counts) EXPECT_NEAR(count, kSamples / 3.0, 300);
}

TEST(Transforms, CropsTheMiddleAndPadsWhereThePictureIsSmaller) {
  const Tensor image = counting({1, 4, 5});
  EXPECT_EQ(apply("[{name: centre_crop, size: [2, 3]}]", image).to_vector(), (Values{7, 8, 9, 12, 13, 14}));
  const Tensor small = counting({1, 1, 1});
  EXPECT_EQ(apply("[{name: centre_crop, size: [3, 3], fill: 0.5}]", small).to_vector(),
            (Values{0.5, 0.5, 0.5, 0.5, 1, 0.5, 0.5, 0.5, 0.5}));
}

TEST(Transforms, RandomCropsAreWindowsOfThePaddedPictureAndReachAllOfThem) {
  const Tensor image = counting({1, 2, 2}, DType::u8);
  std::set<Values> seen;
  for (int sample = 0; sample < 500; ++sample) {
    seen.insert(
        apply("[{name: random_crop, padding: 1}]", image, {.seed = 3, .epoch = 0, .sample = sample}).to_vector());
  }
  std::set<Values> expected;
  const auto at = [](int y, int x) { return y < 0 || x < 0 || y > 1 || x > 1 ? 0.0 : y * 2.0 + x + 1; };
  for (int y = -1; y <= 1; ++y) {
    for (int x = -1; x <= 1; ++x) expected.insert(Values{at(y, x), at(y, x + 1), at(y + 1, x), at(y + 1, x + 1)});
  }
  EXPECT_EQ(seen, expected);
}

TEST(Transforms, FlipsByChance) {
  const Tensor image = counting({1, 2, 3});
  EXPECT_EQ(apply("[{name: flip, chance: 1}]", image).to_vector(), (Values{3, 2, 1, 6, 5, 4}));
  EXPECT_EQ(apply("[{name: flip, chance: 1, vertical: true}]", image).to_vector(), (Values{4, 5, 6, 1, 2, 3}));
  EXPECT_EQ(apply("[{name: flip, chance: 0}]", image).to_vector(), image.to_vector());
  int flipped = 0;
  for (int i = 0; i < 1000; ++i) {
    flipped += apply("[flip]", image, {.seed = 1, .epoch = 0, .sample = i}).to_vector()[0] == 3;
  }
  EXPECT_NEAR(flipped, 500, 60);
}

TEST(Transforms, NormaliseBytesAndFloats) {
  const Tensor bytes = from_doubles(Values{0, 255, 51, 102}, {2, 1, 2}, DType::u8);
  const auto made = apply("[{name: normalise, mean: [0.5, 0.2], std: [0.25, 2]}]", bytes);
  EXPECT_EQ(made.dtype(), DType::f32);
  const Values expected = {-2, 2, 0, 0.1};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(made.to_vector()[i], expected[i], 1e-6);
  EXPECT_NEAR(apply("[to_float, {name: normalise, mean: [0.5, 0.2], std: [0.25, 2]}]", bytes).to_vector()[3], 0.1,
              1e-6);
}

TEST(Transforms, CutoutAndErasingBlankWhatTheySay) {
  const Tensor image = from_doubles(Values(3 * 16 * 16, 1.0), {3, 16, 16});
  for (int sample = 0; sample < 50; ++sample) {
    const SampleKey key{.seed = 2, .epoch = 1, .sample = sample};
    const auto cut = apply("[{name: cutout, size: 4}]", image, key).to_vector();
    const auto blank = std::count(cut.begin(), cut.end(), 0.0);
    EXPECT_TRUE(blank >= 3 * 2 * 2 && blank <= 3 * 16) << blank;
    EXPECT_EQ(blank % 3, 0);
    const auto erased =
        apply("[{name: random_erasing, chance: 1, min_area: 0.1, max_area: 0.2}]", image, key).to_vector();
    const double share = static_cast<double>(std::count(erased.begin(), erased.end(), 0.0)) / (3 * 256);
    EXPECT_TRUE(share > 0.07 && share < 0.23) << share;
  }
  EXPECT_EQ(apply("[{name: random_erasing, chance: 0}]", image).to_vector(), image.to_vector());
}

TEST(Transforms, ColourJitterOfNothingChangesNothing) {
  const Tensor image = from_doubles(Values{0, 50, 100, 150, 200, 250}, {3, 1, 2}, DType::u8);
  EXPECT_EQ(apply("[colour_jitter]", image).to_vector(), image.to_vector());
  const auto jittered = apply("[{name: colour_jitter, brightness: 0.5, contrast: 0.5, saturation: 0.5, hue: 0.2}]",
                              image, {.seed = 1, .epoch = 0, .sample = 4});
  EXPECT_NE(jittered.to_vector(), image.to_vector());
}

TEST(Transforms, RotateByNothingChangesNothing) {
  const Tensor image = counting({2, 3, 4});
  EXPECT_EQ(apply("[{name: rotate, degrees: 0}]", image).to_vector(), image.to_vector());
  EXPECT_NE(apply("[{name: rotate, degrees: 45}]", image, {.seed = 1, .epoch = 0, .sample = 1}).to_vector(),
            image.to_vector());
}

// Samples together, in parts, alone, and again: always the same bits.
TEST(Pipeline, GivesASampleTheSameBitsWhateverIsAroundIt) {
  const std::string yaml =
      "[{name: random_crop, padding: 2}, flip, {name: colour_jitter, brightness: 0.3}, {name: rotate, degrees: 20}, "
      "{name: normalise}, cutout]";
  const std::vector<TensorType> fields = {{DType::u8, {3, 9, 8}}, {DType::i64, {}}};
  const TransformPipeline pipeline(steps(yaml), fields);
  EXPECT_EQ(to_string(pipeline.fields()[0]), "f32[3, 9, 8]");
  EXPECT_FALSE(pipeline.mixes());
  constexpr std::int64_t kCount = 7;
  Tensor images = empty({kCount, 3, 9, 8}, DType::u8);
  for (std::int64_t i = 0; i < images.numel(); ++i) images.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(i * 7);
  const Tensor labels = counting({kCount}, DType::i64);
  std::vector<SampleKey> keys;
  for (int i = 0; i < kCount; ++i) keys.push_back({.seed = 1, .epoch = 3, .sample = 100 + i});
  TransformPipeline::Scratch scratch;
  const auto rows = [](const Tensor& t, std::int64_t begin, std::int64_t count) {
    Shape shape = t.shape();
    shape[0] = count;
    return view_of(t, shape, t.strides(), begin * t.strides()[0]);
  };
  Tensor whole = empty({kCount, 3, 9, 8}), parts = empty({kCount, 3, 9, 8});
  Tensor whole_labels = empty({kCount}, DType::i64), part_labels = empty({kCount}, DType::i64);
  const Tensor in[] = {images, labels}, out[] = {whole, whole_labels};
  pipeline.apply(in, out, keys, scratch);
  for (std::int64_t i = kCount - 1; i >= 0; --i) {
    const Tensor one[] = {rows(images, i, 1), rows(labels, i, 1)}, to[] = {rows(parts, i, 1), rows(part_labels, i, 1)};
    TransformPipeline::Scratch fresh;
    pipeline.apply(one, to, std::span(keys).subspan(static_cast<std::size_t>(i), 1), fresh);
  }
  EXPECT_EQ(whole.to_vector(), parts.to_vector());
  EXPECT_EQ(whole_labels.to_vector(), labels.to_vector());
}

TEST(Pipeline, KnowsHowMuchMemoryItsScratchGrowsTo) {
  for (const char* yaml : {"[flip]", "[flip, to_float]", "[flip, {name: resize, size: [20, 20]}, to_float]",
                           "[to_float, {name: mixup, classes: 3}]", "[flip, to_float, {name: cutmix, classes: 3}]"}) {
    constexpr std::int64_t kCount = 5;
    const std::vector<TensorType> fields = {{DType::u8, {3, 9, 8}}, {DType::i64, {}}};
    const TransformPipeline pipeline(steps(yaml), fields);
    const Tensor in[] = {zeros({kCount, 3, 9, 8}, DType::u8), zeros({kCount}, DType::i64)};
    TensorList out;
    for (auto type : pipeline.fields()) {
      type.shape.insert(0, kCount);
      out.push_back(empty(type.shape, type.dtype));
    }
    TransformPipeline::Scratch scratch;
    pipeline.apply(in, {out.data(), out.size()}, std::vector<SampleKey>(kCount), scratch);
    std::size_t grown = 0;
    for (const auto* buffers : {scratch.sample, scratch.batch}) grown += buffers[0].size() + buffers[1].size();
    EXPECT_EQ(scratch_bytes(steps(yaml), fields, kCount), static_cast<std::int64_t>(grown)) << yaml;
  }
}

struct Mixed {
  Tensor x, y;
};

Mixed mix(const std::string& yaml, const Tensor& x, const Tensor& y, const SampleKey& key) {
  Shape sample = x.shape(), label = y.shape();
  sample.erase(0);
  label.erase(0);
  const TransformPipeline pipeline(steps(yaml), {{x.dtype(), sample}, {y.dtype(), label}});
  EXPECT_TRUE(pipeline.mixes());
  std::vector<SampleKey> keys(static_cast<std::size_t>(x.size(0)), key);
  Shape y_shape = pipeline.fields()[1].shape;
  y_shape.insert(0, x.size(0));
  Mixed made{empty(x.shape()), empty(y_shape)};
  const Tensor in[] = {x, y}, out[] = {made.x, made.y};
  TransformPipeline::Scratch scratch;
  pipeline.apply(in, out, keys, scratch);
  return made;
}

TEST(Mixup, MixesSamplesAndLabelsWithTheSameWeight) {
  // Every pixel of sample i is i, like its label, so that a mix of samples must equal the mix of labels.
  const Tensor x = from_doubles(Values{0, 0, 1, 1, 2, 2, 3, 3}, {4, 1, 1, 2}),
               y = from_doubles(Values{0, 1, 2, 3}, {4}, DType::i64);
  bool mixed = false;
  for (int sample = 0; sample < 20; ++sample) {
    const auto made = mix("[{name: mixup, alpha: 1, classes: 4}]", x, y, {.seed = 1, .epoch = 0, .sample = sample});
    for (std::int64_t i = 0; i < 4; ++i) {
      double mean = 0, sum = 0;
      for (std::int64_t c = 0; c < 4; ++c) {
        const double p = made.y.data<float>()[i * 4 + c];
        mean += p * static_cast<double>(c);
        sum += p;
        mixed |= p > 0.01 && p < 0.99;
      }
      EXPECT_NEAR(sum, 1, 1e-6);
      EXPECT_NEAR(made.x.data<float>()[i * 2], mean, 1e-5);
    }
  }
  EXPECT_TRUE(mixed);
}

TEST(Cutmix, WeighsLabelsByArea) {
  Tensor x = empty({3, 1, 8, 8});
  for (std::int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = static_cast<float>(i / 64);
  const Tensor y = from_doubles(Values{0, 1, 2}, {3}, DType::i64);
  bool mixed = false;
  for (int sample = 0; sample < 20; ++sample) {
    const auto made = mix("[{name: cutmix, classes: 3}]", x, y, {.seed = 4, .epoch = 0, .sample = sample});
    for (std::int64_t i = 0; i < 3; ++i) {
      std::vector<int> pixels(3);
      for (int p = 0; p < 64; ++p) ++pixels[static_cast<std::size_t>(made.x.data<float>()[i * 64 + p])];
      for (std::int64_t c = 0; c < 3; ++c) {
        EXPECT_NEAR(made.y.data<float>()[i * 3 + c], pixels[static_cast<std::size_t>(c)] / 64.0, 1e-6);
      }
      mixed |= pixels[static_cast<std::size_t>(i)] < 64 && pixels[static_cast<std::size_t>(i)] > 0;
    }
  }
  EXPECT_TRUE(mixed);
}

TEST(OneHot, MakesProbabilitiesAndSmoothsThem) {
  const TransformPipeline pipeline(steps("[{name: one_hot, classes: 4, smoothing: 0.2}]"),
                                   {{DType::f32, {1}}, {DType::i64, {}}});
  const Tensor x = counting({2, 1}), y = from_doubles(Values{2, 0}, {2}, DType::i64);
  Tensor x_out = empty({2, 1}), y_out = empty({2, 4});
  const Tensor in[] = {x, y}, out[] = {x_out, y_out};
  TransformPipeline::Scratch scratch;
  pipeline.apply(in, out, std::vector<SampleKey>(2), scratch);
  const Values expected = {0.05, 0.05, 0.85, 0.05, 0.85, 0.05, 0.05, 0.05};
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(y_out.to_vector()[i], expected[i], 1e-6);
  y.data<std::int64_t>()[0] = 4;
  EXPECT_NE(error_of([&] { pipeline.apply(in, out, std::vector<SampleKey>(2), scratch); }).find("below 4, got 4"),
            std::string::npos);
}

TEST(Pipeline, RefusesWhatDoesNotFitNamingTheStep) {
  const std::vector<TensorType> fields = {{DType::f32, {5}}, {DType::i64, {}}};
  EXPECT_NE(error_of([&] { TransformPipeline(steps("[to_float, flip]"), fields); }).find("at place 2 of the list"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              TransformPipeline(steps("[{name: mixup, classes: 3}, to_float]"), fields);
            }).find("before those that mix"),
            std::string::npos);
  EXPECT_NE(error_of([&] { step("{name: flipp}"); }).find("did you mean 'flip'"), std::string::npos);
  EXPECT_NE(error_of([&] { step("{name: random_crop, padding: -1}"); }).find("job.yaml:1"), std::string::npos);
}

}  // namespace
}  // namespace starling::data
