// Pictures of folders: what stands in for a damaged one, and what is an error.
#include "starling/data/datasets/picture_dataset.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>

#include "byte_helpers.h"
#include "starling/data/formats/image.h"
#include "starling/data/loading/split.h"
#include "starling/data/source.h"
#include "testing/temporary_folder.h"

namespace starling::data {
namespace {

using testing::error_of;
using testing::TemporaryFolder;
using testing::write_text;
using Values = std::vector<double>;

DataSplits source(const std::string& yaml) {
  return source_kinds().choose(ConfigNode::parse(yaml, "job.yaml")).make()();
}

// Pixels of some pictures.
Values rows_of(const Dataset& data, std::vector<std::int64_t> rows) {
  std::vector<Tensor> out;
  for (auto type : data.fields()) {
    type.shape.insert(0, std::ssize(rows));
    out.push_back(empty(type.shape, type.dtype));
  }
  data.gather(rows, out);
  return out[0].to_vector();
}

void write_shade(const std::filesystem::path& file, std::uint8_t shade) {
  write_text(file, encode_png({.height = 2, .width = 2, .channels = 1, .pixels = std::vector<std::uint8_t>(4, shade)}));
}

TEST(PictureDataset, ThePictureThatStandsInForADamagedOneIsOfTheSamePart) {
  if (!has_png()) GTEST_SKIP() << "a build without the library";
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "a");
  for (int i = 0; i < 4; ++i)
    write_shade(folder / ("a/" + std::to_string(i) + ".png"), static_cast<std::uint8_t>(10 * i));
  const std::string sound = testing::read_text(folder / "a/0.png");
  write_text(folder / "a/0.png", sound.substr(0, sound.size() - 20));
  const auto all =
      source("{name: image_folder, height: 2, width: 2, channels: 1, folder: " + folder.path().string() + "}").train;
  EXPECT_EQ(rows_of(*all, {0}), Values(4, 10)) << "the next one";
  const auto part = part_of(all, {0, 2, 3});
  EXPECT_EQ(rows_of(*part, {0}), Values(4, 20)) << "the next one of the part";
  EXPECT_EQ(rows_of(*part_of(part, {0, 2}), {0, 1}), (Values{30, 30, 30, 30, 30, 30, 30, 30}));
  EXPECT_NE(error_of([&] { rows_of(*part_of(all, {0}), {0}); }).find("only damaged ones"), std::string::npos);
}

TEST(PictureDataset, APictureThatIsOnlyTooLargeOrUnreadableHasNoStandIn) {
  if (!has_png()) GTEST_SKIP() << "a build without the library";
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "a");
  write_shade(folder / "a/0.png", 1);
  write_shade(folder / "a/1.png", 2);
  const std::string place = "folder: " + folder.path().string() + "}";
  const auto limited = source("{name: image_folder, height: 2, width: 2, most_pixels: 3, " + place).train;
  EXPECT_NE(error_of([&] { rows_of(*limited, {0, 1}); }).find("raise data.most_pixels"), std::string::npos);
  const auto gone = source("{name: image_folder, height: 2, width: 2, " + place).train;
  std::filesystem::remove(folder / "a/0.png");
  EXPECT_NE(error_of([&] { rows_of(*gone, {0, 1}); }).find("0.png"), std::string::npos);
}

}  // namespace
}  // namespace starling::data
