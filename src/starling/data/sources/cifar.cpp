#include "starling/data/formats/cifar.h"

#include <cstring>

#include "starling/base/error.h"
#include "starling/base/file/file.h"
#include "starling/data/loading/split.h"
#include "starling/data/sources/pictures.h"
#include "starling/tensor/bytes.h"

namespace starling::data {
namespace {

struct CifarOptions : SplitOptions {
  std::filesystem::path folder{};
  bool bytes = false;
  std::vector<double> mean{0.4914, 0.4822, 0.4465};
  std::vector<double> std{0.2470, 0.2435, 0.2616};
  static Settings settings() {
    return with_splits(
        {required(setting("folder", &CifarOptions::folder, "where the .bin files of the binary version are")),
         setting("bytes", &CifarOptions::bytes,
                 "pixels as bytes, for transforms that want them; else (pixel / 255 - mean) / std"),
         setting("mean", &CifarOptions::mean, "of each channel, scaled to 0…1"),
         setting("std", &CifarOptions::std, "standard deviation of each channel", {.min = 1e-12})});
  }
};

struct Cifar100Options : CifarOptions {
  Cifar100Options() {
    mean = {0.5071, 0.4865, 0.4409};
    std = {0.2673, 0.2564, 0.2762};
  }
  bool coarse = false;
  static Settings settings() {
    auto all = CifarOptions::settings();
    all.push_back(setting("coarse", &Cifar100Options::coarse, "the 20 coarse labels rather than the 100 fine ones"));
    return all;
  }
};

Tensor joined(const std::vector<Tensor>& parts) {
  Shape shape = parts.front().shape();
  shape[0] = 0;
  for (const auto& part : parts) shape[0] += part.size(0);
  Tensor all = empty(shape, parts.front().dtype());
  auto* to = static_cast<std::byte*>(all.raw());
  for (const auto& part : parts) {
    const auto bytes = bytes_of(part);
    std::memcpy(to, part.raw(), bytes);
    to += bytes;
  }
  return all;
}

std::shared_ptr<const Dataset> read(const CifarOptions& o, CifarKind kind, bool coarse,
                                    const std::vector<std::string>& files) {
  std::vector<Tensor> images, labels;
  for (const auto& name : files) {
    auto path = o.folder / name;
    if (!std::filesystem::exists(path) && std::filesystem::exists(path.string() + ".gz")) path += ".gz";
    const CifarPart part = read_cifar(path, kind);
    images.push_back(part.images);
    labels.push_back(coarse ? part.coarse_labels : part.labels);
  }
  return pictures(joined(images), joined(labels), o.bytes,
                  {{o.mean.begin(), o.mean.end()}, {o.std.begin(), o.std.end()}});
}

// Class names, one per line, from a file beside the data; none if it is missing.
std::vector<std::string> names(const std::filesystem::path& file, std::size_t classes) {
  if (!std::filesystem::exists(file)) return {};
  const std::string text = read_file(file, 1 << 20).value();
  std::vector<std::string> lines;
  std::size_t at = 0;
  while (at < text.size()) {
    const auto end = std::min(text.find('\n', at), text.size());
    if (end > at) lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  if (lines.size() != classes) lines.clear();
  return lines;
}

DataSplits cifar10(const CifarOptions& o) {
  DataSplits splits;
  splits.train =
      read(o, CifarKind::cifar10, false,
           {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"});
  splits.test = read(o, CifarKind::cifar10, false, {"test_batch.bin"});
  splits.classes = 10;
  splits.class_names = {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};
  finish_splits(splits, o);
  return splits;
}

DataSplits cifar100(const Cifar100Options& o) {
  DataSplits splits;
  splits.train = read(o, CifarKind::cifar100, o.coarse, {"train.bin"});
  splits.test = read(o, CifarKind::cifar100, o.coarse, {"test.bin"});
  splits.classes = o.coarse ? 20 : 100;
  splits.class_names = names(o.folder / (o.coarse ? "coarse_label_names.txt" : "fine_label_names.txt"),
                             static_cast<std::size_t>(splits.classes));
  finish_splits(splits, o);
  return splits;
}

}  // namespace

void register_source_cifar(SourceKinds& kinds);
void register_source_cifar(SourceKinds& kinds) {
  kinds.add<CifarOptions>("cifar10", "50 000 + 10 000 colour pictures of 10 classes, 32 × 32, the binary version",
                          [](const CifarOptions& o) { return [o] { return cifar10(o); }; });
  kinds.add<Cifar100Options>("cifar100", "50 000 + 10 000 colour pictures of 100 classes, 32 × 32, the binary version",
                             [](const Cifar100Options& o) { return [o] { return cifar100(o); }; });
}

}  // namespace starling::data
