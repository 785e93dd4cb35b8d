#include "starling/data/datasets/fashion_mnist.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "starling/base/error.h"
#include "starling/base/parallel.h"
#include "starling/data/formats/idx.h"

namespace starling {
namespace {

constexpr std::int64_t kSide = 28;
constexpr int kClasses = 10;
constexpr std::uint64_t kMostBytes = 60'000ULL * kSide * kSide;

// Reads a file, gzipped as Debian ships it, or plain.
Tensor read_part(const std::filesystem::path& folder, const std::string& name) {
  for (const auto& path : {folder / (name + ".gz"), folder / name}) {
    if (std::filesystem::exists(path)) return data::read_idx(path, {.most_bytes = kMostBytes});
  }
  fail(
      "[fashion_mnist] expected {}.gz in {}, got no such file; the Debian package dataset-fashion-mnist has it "
      "(apt install dataset-fashion-mnist), or name another folder",
      name, folder.string());
}

Tensor to_images(const Tensor& pixels, float mean, float std) {
  std::array<float, 256> scaled{};
  for (std::size_t i = 0; i < scaled.size(); ++i) scaled[i] = (static_cast<float>(i) / 255.0F - mean) / std;
  Tensor images = empty({pixels.size(0), 1, kSide, kSide}, DType::f32);
  const auto* from = pixels.data<std::uint8_t>();
  auto* to = images.data<float>();
  parallel_for(pixels.numel(), 1 << 16, [&](std::int64_t begin, std::int64_t end) {
    std::transform(from + begin, from + end, to + begin, [&](std::uint8_t pixel) { return scaled[pixel]; });
  });
  return images;
}

Tensor to_labels(const Tensor& classes, const std::filesystem::path& folder) {
  Tensor labels = empty(classes.shape(), DType::i64);
  const auto* from = classes.data<std::uint8_t>();
  check(std::all_of(from, from + classes.numel(), [](std::uint8_t label) { return label < kClasses; }),
        "[fashion_mnist] {}: expected labels from 0 to {}, got others", folder.string(), kClasses - 1);
  std::copy_n(from, classes.numel(), labels.data<std::int64_t>());
  return labels;
}

}  // namespace

LabelledImages load_fashion_mnist(Split split, const FashionMnistOptions& options) {
  check(options.std > 0, "[fashion_mnist] expected a standard deviation above 0, got {}", options.std);
  const std::string part = split == Split::train ? "train" : "t10k";
  const Tensor pixels = read_part(options.folder, part + "-images-idx3-ubyte");
  const Tensor classes = read_part(options.folder, part + "-labels-idx1-ubyte");
  check(pixels.rank() == 3 && pixels.size(1) == kSide && pixels.size(2) == kSide && classes.rank() == 1 &&
            classes.size(0) == pixels.size(0),
        "[fashion_mnist] {}: expected images of [n, 28, 28] and n labels, got {} and {}", options.folder.string(),
        to_string(pixels.shape()), to_string(classes.shape()));
  return {to_images(pixels, options.mean, options.std), to_labels(classes, options.folder)};
}

}  // namespace starling
