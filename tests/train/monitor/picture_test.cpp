#include "starling/train/monitor/picture.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <map>

#include "testing/temporary_folder.h"

namespace starling::train {
namespace {

std::uint32_t number_at(const std::string& data, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(data.at(at + i));
  return value;
}

// The chunks of a PNG file by kind; checks their checksums.
std::map<std::string, std::string> chunks_of(const std::string& png) {
  EXPECT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1a\n");
  std::map<std::string, std::string> chunks;
  for (std::size_t at = 8; at < png.size();) {
    const std::size_t size = number_at(png, at);
    const std::string body = png.substr(at + 4, size + 4);
    EXPECT_EQ(::crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size())),
              number_at(png, at + 8 + size));
    chunks[body.substr(0, 4)] = body.substr(4);
    at += size + 12;
  }
  return chunks;
}

std::vector<std::uint8_t> decoded(const std::string& png, std::size_t width, std::size_t height, std::size_t channels) {
  auto chunks = chunks_of(png);
  EXPECT_EQ(number_at(chunks["IHDR"], 0), width);
  EXPECT_EQ(number_at(chunks["IHDR"], 4), height);
  EXPECT_EQ(chunks["IHDR"].substr(8), std::string("\x08", 1) + (channels == 3 ? '\2' : '\0') + std::string(3, '\0'));
  EXPECT_TRUE(chunks.contains("IEND"));
  const std::size_t row = width * channels;
  std::vector<std::uint8_t> raw((row + 1) * height), pixels;
  uLongf size = raw.size();
  const auto& data = chunks["IDAT"];
  EXPECT_EQ(::uncompress(raw.data(), &size, reinterpret_cast<const Bytef*>(data.data()), data.size()), Z_OK);
  EXPECT_EQ(size, raw.size());
  for (std::size_t y = 0; y < height; ++y) {
    EXPECT_EQ(raw[y * (row + 1)], 2);  // the difference to the row above
    for (std::size_t x = 0; x < row; ++x)
      pixels.push_back(static_cast<std::uint8_t>(raw[y * (row + 1) + 1 + x] + (y > 0 ? pixels[(y - 1) * row + x] : 0)));
  }
  return pixels;
}

TEST(Picture, PngHoldsEveryPixel) {
  for (const int channels : {1, 3}) {
    Picture image{.width = 5, .height = 4, .channels = channels};
    for (int i = 0; i < 20 * channels; ++i) image.pixels.push_back(static_cast<std::uint8_t>(i * 37));
    EXPECT_EQ(decoded(to_png(image), 5, 4, static_cast<std::size_t>(channels)), image.pixels);
  }
}

TEST(Picture, PngRefusesSizesThatDoNotAgree) {
  EXPECT_NE(testing::error_of([] { to_png({.width = 2, .height = 2, .channels = 1, .pixels = {1, 2, 3}}); }), "");
  EXPECT_NE(testing::error_of([] { to_png({.width = 1, .height = 1, .channels = 2, .pixels = {1, 2}}); }), "");
}

TEST(Picture, KnowsWhatLooksLikeImages) {
  EXPECT_TRUE(looks_like_images(zeros({2, 28, 28})));
  EXPECT_TRUE(looks_like_images(zeros({2, 3, 8, 8})));
  EXPECT_TRUE(looks_like_images(zeros({2, 1, 8, 8}, DType::u8)));
  EXPECT_FALSE(looks_like_images(zeros({2, 784})));
  EXPECT_FALSE(looks_like_images(zeros({2, 64, 8, 8})));
  EXPECT_FALSE(looks_like_images(zeros({2, 8, 8}, DType::i64)));
  EXPECT_FALSE(looks_like_images(zeros({2, 3, 2000, 8})));
  EXPECT_FALSE(looks_like_images(Tensor()));
}

TEST(Picture, ContactSheetStretchesEachSampleAndKeepsThemApart) {
  std::vector<float> values(3 * 16, 0.5F);  // a flat sample is black
  values[0] = -1;                           // of the first sample: -1 becomes 0, 0.5 becomes 255
  values[16] = 2.5F;                        // of the second: 0.5 becomes 0, 2.5 becomes 255
  const Picture sheet = contact_sheet(from_host<float>(values, {3, 1, 4, 4}), 8);
  EXPECT_EQ(sheet.width, 9);
  EXPECT_EQ(sheet.height, 9);
  EXPECT_EQ(sheet.pixels[0], 0);
  EXPECT_EQ(sheet.pixels[1], 255);
  EXPECT_EQ(sheet.pixels[4], 128);  // between them
  EXPECT_EQ(sheet.pixels[5], 255);
  EXPECT_EQ(sheet.pixels[6], 0);
  EXPECT_EQ(sheet.pixels[5 * 9], 0);
  EXPECT_EQ(sheet.pixels[5 * 9 + 5], 128);  // there is no fourth
}

TEST(Picture, ContactSheetTakesColoursPlaneByPlaneAndNoMoreThanAsked) {
  std::vector<std::uint8_t> values(2 * 3 * 16);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint8_t>(i);
  const Picture sheet = contact_sheet(from_host<std::uint8_t>(values, {2, 3, 4, 4}), 1);
  EXPECT_EQ(sheet.width, 4);
  EXPECT_EQ(sheet.channels, 3);
  EXPECT_EQ(std::vector<std::uint8_t>(sheet.pixels.begin(), sheet.pixels.begin() + 6),
            (std::vector<std::uint8_t>{0, 16, 32, 1, 17, 33}));
}

}  // namespace
}  // namespace starling::train
