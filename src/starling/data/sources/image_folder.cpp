#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "starling/base/error.h"
#include "starling/data/datasets/picture_dataset.h"
#include "starling/data/loading/split.h"
#include "starling/data/raw/raw.h"

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
  bool strict = false;
  std::int64_t most_pixels = std::int64_t{1} << 26;
  PictureReader reader() const { return {channels, height, width, fit, most_pixels}; }
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
         setting("bytes", &FolderOptions::bytes,
                 "pixels as bytes, which become f32 of 0…1 where the network begins; else f32 at once"),
         setting("strict", &FolderOptions::strict,
                 "end at a file that is no picture, rather than leave it out and say so"),
         setting("most_pixels", &FolderOptions::most_pixels, "refuse larger pictures", {.min = 1})});
  }
};

bool has_pictures(const fs::path& folder) {
  return std::any_of(fs::recursive_directory_iterator(folder), fs::recursive_directory_iterator(),
                     [](const auto& entry) { return entry.is_regular_file() && has_picture_name(entry.path()); });
}

// Folders with pictures; others are left out and noted: a class that no sample has cannot be learned.
std::vector<std::string> class_folders(const fs::path& folder, std::vector<std::string>& notes) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.is_directory() || entry.path().filename().string().starts_with('.')) continue;
    if (has_pictures(entry.path())) {
      names.push_back(entry.path().filename().string());
    } else {
      notes.push_back(fmt::format("the folder {} has no pictures: it is no class", entry.path().string()));
    }
  }
  std::sort(names.begin(), names.end());
  check(!names.empty(),
        "[image_folder] expected a folder with pictures for each class in {}, got none (put the "
        "pictures of each class into a folder of its name)",
        folder.string());
  return names;
}

void expect_known(const std::vector<std::string>& folders, const std::vector<std::string>& classes,
                  const fs::path& place) {
  for (const auto& name : folders)
    check(std::find(classes.begin(), classes.end(), name) != classes.end(),
          "[image_folder] {}: expected folders of the classes ({}), got '{}' (move it away, or rename it)",
          place.string(), fmt::join(classes, ", "), name);
}

// Pictures of all classes in the order of their paths.
std::shared_ptr<const Dataset> pictures_in(const fs::path& folder, const std::vector<std::string>& classes,
                                           const FolderOptions& o) {
  std::vector<PictureFile> files;
  for (std::size_t label = 0; label < classes.size(); ++label) {
    const fs::path place = folder / classes[label];
    if (!fs::is_directory(place)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(place)) {
      if (entry.is_regular_file() && has_picture_name(entry.path())) {
        files.push_back({entry.path(), static_cast<std::int64_t>(label)});
      }
    }
  }
  std::sort(files.begin(), files.end(), [](const PictureFile& a, const PictureFile& b) { return a.file < b.file; });
  return std::make_shared<const PictureDataset>(
      std::move(files),
      PictureDatasetOptions{.reader = o.reader(), .bytes = o.bytes, .strict = o.strict, .folder = folder.string()});
}

DataSplits make(const FolderOptions& o, const Reading& as) {
  check(o.channels != 2, "[image_folder] expected 1 or 3 channels, got 2");
  check(fs::is_directory(o.folder),
        "[image_folder] expected a folder, got {}, which is {} (data.folder names "
        "it)",
        o.folder.string(), fs::exists(o.folder) ? "a file" : "not there");
  const fs::path train = o.folder / o.train, test = o.folder / o.test;
  const bool parted = !o.train.empty() && fs::is_directory(train);
  const fs::path from = parted ? train : o.folder;
  DataSplits splits;
  splits.class_names = class_folders(from, splits.notes);
  if (raw_kind(as.raw) == "pictures" && !as.class_names.empty()) {
    expect_known(splits.class_names, as.class_names, from);
    splits.class_names = as.class_names;
  }
  splits.classes = std::ssize(splits.class_names);
  splits.train = pictures_in(from, splits.class_names, o);
  if (parted && !o.test.empty() && fs::is_directory(test)) {
    splits.test = pictures_in(test, splits.class_names, o);
  } else {
    take_test_share(splits, o.test_share, o.split_seed);
  }
  finish_splits(splits, o);
  splits.raw = o.reader().json();
  if (!o.bytes) splits.raw_transforms.push_back({{"name", "to_float"}});
  return splits;
}

}  // namespace

void register_source_image_folder(SourceKinds& kinds);
void register_source_image_folder(SourceKinds& kinds) {
  kinds.add<FolderOptions>("image_folder", "JPEG and PNG files in a folder for each class",
                           [](const FolderOptions& o) { return [o](const Reading& as) { return make(o, as); }; });
}

}  // namespace starling::data
