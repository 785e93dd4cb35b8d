#include "starling/data/datasets/fashion_mnist.h"

#include <algorithm>
#include <filesystem>

#include "starling/base/error.h"
#include "starling/data/formats/idx.h"
#include "starling/data/loading/split.h"
#include "starling/data/sources/pictures.h"

namespace starling::data {
namespace {

struct IdxSourceOptions : SplitOptions {
  std::filesystem::path folder{};
  bool bytes = false;
  double mean = 0;
  double std = 1;
};

Settings idx_settings() {
  return with_splits({setting("folder", &IdxSourceOptions::folder,
                              "where the four idx files are, gzipped or plain; empty: where Debian puts Fashion-MNIST"),
                      setting("bytes", &IdxSourceOptions::bytes,
                              "pixels as bytes, for transforms that want them; else (pixel / 255 - mean) / std"),
                      setting("mean", &IdxSourceOptions::mean, "of the pixels, scaled to 0…1"),
                      setting("std", &IdxSourceOptions::std, "standard deviation of the pixels", {.min = 1e-12})});
}

struct FashionOptions : IdxSourceOptions {
  FashionOptions() {
    mean = 0.2860;
    std = 0.3530;
  }
  static Settings settings() { return idx_settings(); }
};

FashionOptions with_folder(FashionOptions options) {
  if (options.folder.empty()) options.folder = FashionMnistOptions{}.folder;
  return options;
}

struct MnistOptions : IdxSourceOptions {
  static Settings settings() {
    auto all = idx_settings();
    all[0].required = true;
    return all;
  }
};

Tensor read_part(const std::filesystem::path& folder, const std::string& name, const std::string& hint) {
  for (const auto& path : {folder / (name + ".gz"), folder / name}) {
    if (std::filesystem::exists(path)) return read_idx(path);
  }
  fail("[idx] expected {}.gz or {} in {}, got no such file{}", name, name, folder.string(), hint);
}

std::shared_ptr<const Dataset> read_split(const IdxSourceOptions& o, const std::string& part, const std::string& hint,
                                          std::int64_t& classes) {
  Tensor pixels = read_part(o.folder, part + "-images-idx3-ubyte", hint);
  const Tensor bytes = read_part(o.folder, part + "-labels-idx1-ubyte", hint);
  check(pixels.rank() == 3 && bytes.rank() == 1 && pixels.size(0) == bytes.size(0) && pixels.size(0) > 0,
        "[idx] {}: expected images [n, height, width] and n labels, got {} and {}", o.folder.string(),
        to_string(pixels.shape()), to_string(bytes.shape()));
  Tensor labels = empty(bytes.shape(), DType::i64);
  const auto* from = bytes.data<std::uint8_t>();
  std::copy_n(from, bytes.numel(), labels.data<std::int64_t>());
  classes = std::max<std::int64_t>(classes, *std::max_element(from, from + bytes.numel()) + 1);
  const Shape shape{pixels.size(0), 1, pixels.size(1), pixels.size(2)};
  return pictures(view_of(pixels, shape, contiguous_strides(shape), 0), labels, o.bytes,
                  {{static_cast<float>(o.mean)}, {static_cast<float>(o.std)}});
}

DataSplits read(const IdxSourceOptions& options, const std::string& hint, std::vector<std::string> names) {
  DataSplits splits;
  splits.train = read_split(options, "train", hint, splits.classes);
  splits.test = read_split(options, "t10k", hint, splits.classes);
  splits.class_names = std::move(names);
  finish_splits(splits, options);
  return splits;
}

}  // namespace

void register_source_fashion_mnist(SourceKinds& kinds);
void register_source_fashion_mnist(SourceKinds& kinds) {
  kinds.add<FashionOptions>("fashion_mnist",
                            "60 000 + 10 000 pictures of clothes, 28 × 28 (Debian: dataset-fashion-mnist)",
                            [](const FashionOptions& o) {
                              return [o = with_folder(o)] {
                                return read(o, "; the Debian package dataset-fashion-mnist has it",
                                            {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt",
                                             "Sneaker", "Bag", "Ankle boot"});
                              };
                            });
  kinds.add<MnistOptions>("mnist", "Pictures and labels in idx files named as MNIST's (train-…, t10k-…)",
                          [](const MnistOptions& o) { return [o] { return read(o, "", {}); }; });
}

}  // namespace starling::data
