#include "starling/data/formats/image.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "../byte_helpers.h"
#include "starling/base/bytes.h"
#include "testing/temporary_folder.h"

namespace starling::data {
namespace {

using testing::error_of;
using testing::golden;
using testing::read_text;

bool can_read(const std::string& name) { return name.ends_with(".png") ? has_png() : has_jpeg(); }

// Checks the largest and the mean difference of the decoded image from Pillow's.
void expect_near(const std::string& name, std::int64_t channels, int most, double mean) {
  if (!can_read(name)) GTEST_SKIP() << "a build without the library";
  static const auto decoded = testing::golden_arrays("decoded.npz");
  const Tensor& expected = decoded.at(name + ":" + std::to_string(channels));
  const std::string file = read_text(golden(name));
  const Image image = decode_image(as_bytes(file), name, {.channels = channels});
  ASSERT_EQ(image.height, expected.size(0));
  ASSERT_EQ(image.width, expected.size(1));
  ASSERT_EQ(static_cast<std::int64_t>(image.pixels.size()), expected.numel());
  int largest = 0;
  double sum = 0;
  for (std::size_t i = 0; i < image.pixels.size(); ++i) {
    const int away = std::abs(int{image.pixels[i]} - int{expected.data<std::uint8_t>()[i]});
    largest = std::max(largest, away);
    sum += away;
  }
  EXPECT_LE(largest, most) << name << " as " << channels;
  EXPECT_LE(sum / static_cast<double>(image.pixels.size()), mean) << name << " as " << channels;
}

TEST(Images, JpegsAreWithinTwoLevelsOfPillow) {
  for (const char* name : {"colour.jpg", "progressive.jpg", "full.jpg", "grey.jpg", "cmyk.jpg"}) {
    for (const int channels : {1, 3}) expect_near(name, channels, 2, 0.6);
  }
}

TEST(Images, PngsAreExactlyPillows) {
  for (const char* name : {"colour.png", "grey.png", "palette.png", "alpha.png", "deep.png", "bits.png"}) {
    for (const int channels : {1, 3}) expect_near(name, channels, 0, 0);
  }
}

TEST(Images, PngsRoundTrip) {
  if (!has_png()) GTEST_SKIP() << "a build without the library";
  for (const std::int64_t channels : {1, 3}) {
    Image image{3, 5, channels, {}};
    for (std::int64_t i = 0; i < 15 * channels; ++i) image.pixels.push_back(static_cast<std::uint8_t>(i * 37));
    const std::string file = encode_png(image);
    const Image back = decode_image(as_bytes(file), "f", {.channels = channels});
    EXPECT_EQ(back.pixels, image.pixels);
    EXPECT_EQ(back.height, 3);
  }
}

TEST(Images, AreRefusedWhenCutAnywhere) {
  for (const char* name : {"colour.jpg", "progressive.jpg", "colour.png"}) {
    if (!can_read(name)) continue;
    const std::string whole = read_text(golden(name));
    // The last two bytes may be missing: the end marker of a JPEG, part of a PNG's last checksum.
    for (std::size_t size = 0; size + 2 < whole.size(); ++size) {
      EXPECT_NE(error_of([&] { decode_image(as_bytes(whole.substr(0, size)), name); }), "") << name << " " << size;
    }
  }
}

TEST(Images, HarmlessWarningsDoNotRefuseAnImage) {
  if (!has_jpeg()) GTEST_SKIP() << "a build without the library";
  const std::string whole = read_text(golden("colour.jpg"));
  const auto pixels = [](const std::string& file) { return decode_image(as_bytes(file), "f").pixels; };
  const std::string bytes_before_the_end = whole.substr(0, whole.size() - 2) + "12345" + whole.substr(whole.size() - 2);
  EXPECT_EQ(pixels(bytes_before_the_end), pixels(whole));
  std::string another_version = whole;
  const auto at = whole.find("JFIF");
  ASSERT_NE(at, std::string::npos);
  another_version[at + 5] = 9;
  EXPECT_EQ(pixels(another_version), pixels(whole));
}

TEST(Images, DamageNeverDoesMoreThanThrow) {
  for (const char* name : {"colour.jpg", "grey.jpg", "palette.png", "alpha.png"}) {
    if (!can_read(name)) continue;
    const std::string whole = read_text(golden(name));
    for (std::size_t at = 0; at < whole.size(); ++at) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ 0xFF);
      const std::string error = error_of([&] { decode_image(as_bytes(damaged), name, {.most_pixels = 1 << 16}); });
      EXPECT_TRUE(error.empty() || error.starts_with("[image] ")) << error;
    }
  }
}

TEST(Images, LargeOnesAreRefusedBeforeMemoryIsTaken) {
  for (const char* name : {"colour.jpg", "colour.png"}) {
    if (!can_read(name)) continue;
    const std::string whole = read_text(golden(name));
    EXPECT_NE(error_of([&] { decode_image(as_bytes(whole), name, {.most_pixels = 1000}); }).find("45 × 37"),
              std::string::npos);
  }
  if (!has_png()) return;
  std::string lying = read_text(golden("colour.png"));
  for (std::size_t at = 16; at < 24; ++at) lying[at] = '\x7f';
  EXPECT_NE(error_of([&] { decode_image(as_bytes(lying), "f"); }).find("pixels"), std::string::npos);
}

TEST(Images, OtherFilesAreNamed) {
  EXPECT_NE(error_of([] { decode_image(as_bytes("GIF89a"), "a.gif"); }).find("a.gif: expected a JPEG or a PNG"),
            std::string::npos);
}

}  // namespace
}  // namespace starling::data
