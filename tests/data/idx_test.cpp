#include "starling/data/formats/idx.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <random>
#include <string>

#include "starling/base/bytes.h"
#include "starling/data/datasets/fashion_mnist.h"
#include "testing/temporary_folder.h"

namespace starling::data {
namespace {

using testing::error_of;
using testing::write_text;

std::string big_endian(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

std::string idx(const std::vector<std::uint32_t>& dims, const std::string& data, char type = 8) {
  std::string text{0, 0, type, static_cast<char>(dims.size())};
  for (auto dim : dims) text += big_endian(dim);
  return text + data;
}

std::string gzipped(const std::string& text) {
  std::string packed(text.size() + 1000, '\0');
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

Tensor parse(const std::string& text, const IdxOptions& options = {}) {
  return parse_idx(as_bytes(text), "f", options);
}

TEST(Idx, ReadsPlainAndGzippedFiles) {
  const testing::TemporaryFolder folder;
  const std::string text = idx({2, 3}, {1, 2, 3, 4, 5, 6});
  write_text(folder / "plain", text);
  write_text(folder / "packed.gz", gzipped(text));
  for (const char* name : {"plain", "packed.gz"}) {
    const Tensor tensor = read_idx(folder / name);
    EXPECT_EQ(to_string(tensor.type()), "u8[2, 3]");
    EXPECT_EQ(tensor.to_vector(), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  }
}

TEST(Idx, RefusesWhatIsNotWhole) {
  const std::string whole = idx({2, 3}, "abcdef");
  EXPECT_NE(error_of([&] { parse(whole.substr(0, whole.size() - 1)); }), "");
  EXPECT_NE(error_of([&] { parse(whole + "x"); }), "");
  const std::string packed = gzipped(whole);
  EXPECT_NE(error_of([&] { parse(packed.substr(0, packed.size() - 1)); }), "");
  EXPECT_NE(error_of([&] { parse(packed + "x"); }), "");
  EXPECT_NE(error_of([&] { parse(gzipped(whole + "x")); }), "");
  std::string damaged = packed;
  damaged[packed.size() - 6] = static_cast<char>(damaged[packed.size() - 6] ^ 1);  // in the checksum
  EXPECT_NE(error_of([&] { parse(damaged); }), "");
}

TEST(Idx, RefusesOtherTypesAndTooManyAxes) {
  EXPECT_NE(error_of([] { parse(idx({1}, "abcd", 0x0d)); }).find("0x0d"), std::string::npos);
  EXPECT_NE(error_of([] { parse(idx({1, 1, 1, 1, 1, 1, 1, 1, 1}, "a")); }).find("axes"), std::string::npos);
  EXPECT_NE(error_of([] { parse("PK\3\4"); }), "");
  EXPECT_NE(error_of([] { parse(""); }), "");
}

TEST(Idx, RefusesLargeSizesBeforeAllocating) {
  EXPECT_NE(error_of([] { parse(idx({0xffffffff, 0xffffffff, 0xffffffff}, "abc")); }), "");
  EXPECT_NE(error_of([] { parse(idx({1000000000}, "abc")); }).find("at most"), std::string::npos);
  EXPECT_NE(error_of([] { parse(gzipped(idx({1000000000}, "abc"))); }).find("at most"), std::string::npos);
  const std::string bomb = gzipped(idx({1000000}, std::string(1000000, 'a')));
  EXPECT_EQ(parse(bomb).numel(), 1000000);
  EXPECT_NE(error_of([&] { parse(bomb, {.most_bytes = 999999}); }).find("999999"), std::string::npos);
}

TEST(Idx, SurvivesMutatedFiles) {
  const std::string plain = idx({2, 3}, "abcdef");
  std::mt19937 random(3);
  for (const auto& good : {plain, gzipped(plain)}) {
    int refused = 0;
    for (int i = 0; i < 300; ++i) {
      std::string bad = good;
      bad[random() % bad.size()] = static_cast<char>(random());
      refused += error_of([&] { parse(bad); }).empty() ? 0 : 1;
    }
    EXPECT_GT(refused, 100);
  }
}

TEST(FashionMnist, NamesThePackageWhenTheFilesAreMissing) {
  const std::string error = error_of([] { load_fashion_mnist(Split::train, {.folder = "/nowhere"}); });
  EXPECT_NE(error.find("dataset-fashion-mnist"), std::string::npos);
  EXPECT_NE(error.find("/nowhere"), std::string::npos);
}

TEST(FashionMnist, ScalesAndNormalisesTheImagesOfAFolder) {
  const testing::TemporaryFolder folder;
  std::string pixels(2 * 28 * 28, '\0');
  pixels[0] = static_cast<char>(255);
  write_text(folder / "t10k-images-idx3-ubyte.gz", gzipped(idx({2, 28, 28}, pixels)));
  write_text(folder / "t10k-labels-idx1-ubyte", idx({2}, {9, 3}));
  const auto data = load_fashion_mnist(Split::test, {.folder = folder.path(), .mean = 0.5F, .std = 0.25F});
  EXPECT_EQ(to_string(data.images.type()), "f32[2, 1, 28, 28]");
  EXPECT_EQ(data.images.to_vector()[0], 2.0);
  EXPECT_EQ(data.images.to_vector()[1], -2.0);
  EXPECT_EQ(to_string(data.labels.type()), "i64[2]");
  EXPECT_EQ(data.labels.to_vector(), (std::vector<double>{9, 3}));
}

TEST(FashionMnist, RefusesLabelsOutOfRangeAndUnequalCounts) {
  const testing::TemporaryFolder folder;
  write_text(folder / "train-images-idx3-ubyte", idx({1, 28, 28}, std::string(784, 'x')));
  write_text(folder / "train-labels-idx1-ubyte", idx({1}, {10}));
  EXPECT_NE(error_of([&] { load_fashion_mnist(Split::train, {.folder = folder.path()}); }), "");
  write_text(folder / "train-labels-idx1-ubyte", idx({2}, {1, 2}));
  EXPECT_NE(error_of([&] { load_fashion_mnist(Split::train, {.folder = folder.path()}); }), "");
}

TEST(FashionMnist, HasTenThousandBalancedTestImages) {
  if (!std::filesystem::exists(FashionMnistOptions{}.folder)) GTEST_SKIP() << "dataset-fashion-mnist is not installed";
  const auto data = load_fashion_mnist(Split::test);
  EXPECT_EQ(to_string(data.images.type()), "f32[10000, 1, 28, 28]");
  std::vector<int> counts(10);
  for (auto label : data.labels.to_vector()) ++counts.at(static_cast<std::size_t>(label));
  EXPECT_EQ(counts, std::vector<int>(10, 1000));
  double sum = 0;
  double squares = 0;
  for (auto value : data.images.to_vector()) {
    sum += value;
    squares += value * value;
  }
  const auto n = static_cast<double>(data.images.numel());
  EXPECT_NEAR(sum / n, 0, 0.02);
  EXPECT_NEAR(squares / n, 1, 0.03);
}

}  // namespace
}  // namespace starling::data
