#include <algorithm>
#include <filesystem>

#include "starling/base/error.h"
#include "starling/base/file.h"
#include "starling/data/loading/split.h"
#include "starling/data/pictures/fit_image.h"

namespace starling::data {
namespace {

namespace fs = std::filesystem;

struct FolderOptions : SplitOptions {
  fs::path folder{};
  std::string train = "train";
  std::string test = "test";
  double test_share = 0;
  std::int64_t height = 224;
  std::int64_t width = 224;
  std::int64_t channels = 3;
  Fit fit = Fit::crop;
  bool bytes = true;
  std::int64_t most_pixels = std::int64_t{1} << 26;
  static Settings settings() {
    return with_splits(
        {required(
             setting("folder", &FolderOptions::folder, "with a folder for each class, or those in train and test")),
         setting("train", &FolderOptions::train, "sub-folder to train with, where it is there"),
         setting("test", &FolderOptions::test, "sub-folder to test with, where it is there"),
         setting("test_share", &FolderOptions::test_share,
                 "share of the files to test with, where there is no sub-folder", {.min = 0, .max = 0.9}),
         setting("height", &FolderOptions::height, "that pictures come to", {.min = 1, .max = 16384}),
         setting("width", &FolderOptions::width, "that pictures come to", {.min = 1, .max = 16384}),
         setting("channels", &FolderOptions::channels, "3: colour, 1: grey", {.min = 1, .max = 3}),
         choice("fit", &FolderOptions::fit, {"crop", "pad", "stretch"}, "how pictures come to that size"),
         setting("bytes", &FolderOptions::bytes, "pixels as bytes; else as f32 of 0…1"),
         setting("most_pixels", &FolderOptions::most_pixels, "refuse larger pictures", {.min = 1})});
  }
};

struct Picture {
  fs::path file;
  std::int64_t label;
};

bool is_picture(const fs::path& path) {
  std::string extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png";
}

std::vector<std::string> class_folders(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_directory() && !entry.path().filename().string().starts_with('.')) {
      names.push_back(entry.path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  check(!names.empty(), "[image_folder] expected a folder for each class in {}, got none", folder.string());
  return names;
}

// Images of a folder, decoded on access.
class FolderDataset final : public Dataset {
 public:
  FolderDataset(const fs::path& folder, const std::vector<std::string>& classes, const FolderOptions& options)
      : options_(options) {
    for (std::size_t label = 0; label < classes.size(); ++label) {
      const fs::path place = folder / classes[label];
      if (!fs::is_directory(place)) continue;
      for (const auto& entry : fs::recursive_directory_iterator(place)) {
        if (entry.is_regular_file() && is_picture(entry.path())) {
          pictures_.push_back({entry.path(), static_cast<std::int64_t>(label)});
        }
      }
    }
    std::sort(pictures_.begin(), pictures_.end(), [](const Picture& a, const Picture& b) { return a.file < b.file; });
    check(!pictures_.empty(), "[image_folder] expected .jpg, .jpeg or .png files in {}, got none", folder.string());
  }

  std::int64_t size() const override { return std::ssize(pictures_); }
  std::vector<TensorType> fields() const override {
    return {{options_.bytes ? DType::u8 : DType::f32, {options_.channels, options_.height, options_.width}},
            {DType::i64, {}}};
  }
  const fs::path& file(std::int64_t row) const { return pictures_[static_cast<std::size_t>(row)].file; }

  void gather(std::span<const std::int64_t> rows, std::span<const Tensor> out) const override {
    const std::int64_t pixels = options_.channels * options_.height * options_.width;
    std::vector<std::uint8_t> planes(options_.bytes ? 0 : static_cast<std::size_t>(pixels));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i] < 0 || rows[i] >= size()) fail("[image_folder] expected samples below {}, got {}", size(), rows[i]);
      const auto& [file, label] = pictures_[static_cast<std::size_t>(rows[i])];
      const auto at = static_cast<std::int64_t>(i) * pixels;
      std::uint8_t* to = options_.bytes ? out[0].data<std::uint8_t>() + at : planes.data();
      const std::string bytes = read_file(file, kMostFile).value();
      fit_image(decode_image(std::as_bytes(std::span(bytes)), file.string(),
                             {.channels = options_.channels, .most_pixels = options_.most_pixels}),
                options_.fit, options_.height, options_.width, to);
      for (std::int64_t p = 0; !options_.bytes && p < pixels; ++p) {
        out[0].data<float>()[at + p] = static_cast<float>(planes[static_cast<std::size_t>(p)]) / 255.0F;
      }
      out[1].data<std::int64_t>()[i] = label;
    }
  }

 private:
  static constexpr std::size_t kMostFile = 256 << 20;
  FolderOptions options_;
  std::vector<Picture> pictures_;
};

DataSplits make(const FolderOptions& o) {
  check(o.channels != 2, "[image_folder] expected 1 or 3 channels, got 2");
  check(fs::is_directory(o.folder), "[image_folder] expected a folder, got {}", o.folder.string());
  const fs::path train = o.folder / o.train, test = o.folder / o.test;
  const bool parted = !o.train.empty() && fs::is_directory(train);
  const fs::path from = parted ? train : o.folder;
  DataSplits splits;
  splits.class_names = class_folders(from);
  splits.classes = std::ssize(splits.class_names);
  splits.train = std::make_shared<const FolderDataset>(from, splits.class_names, o);
  if (parted && !o.test.empty() && fs::is_directory(test)) {
    splits.test = std::make_shared<const FolderDataset>(test, splits.class_names, o);
  } else {
    take_test_share(splits, o.test_share, o.split_seed);
  }
  finish_splits(splits, o);
  return splits;
}

}  // namespace

void register_source_image_folder(SourceKinds& kinds);
void register_source_image_folder(SourceKinds& kinds) {
  kinds.add<FolderOptions>("image_folder", "JPEG and PNG files in a folder for each class",
                           [](const FolderOptions& o) { return [o] { return make(o); }; });
}

}  // namespace starling::data
