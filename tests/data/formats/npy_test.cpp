#include "starling/data/formats/npy.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <limits>

#include "../byte_helpers.h"
#include "starling/base/bytes.h"
#include "starling/data/datasets/dataset.h"
#include "starling/data/formats/npy_header.h"
#include "starling/data/formats/zip.h"
#include "testing/temporary_folder.h"

namespace starling::data {
namespace {

using testing::error_of;
using testing::golden;
using testing::read_text;

using Values = std::vector<double>;

const std::map<std::string, std::pair<std::string, Values>>& made_by_numpy() {
  static const std::map<std::string, std::pair<std::string, Values>> all = {
      {"f64", {"f64[2, 2]", {1.5, -2.25, std::numeric_limits<double>::infinity(), 1e-300}}},
      {"f32", {"f32[2, 3]", {0, 1.0F / 7, 2.0F / 7, 3.0F / 7, 4.0F / 7, 5.0F / 7}}},
      {"f16", {"f16[3]", {0.0999755859375, -65504, 5.960464477539063e-08}}},
      {"i64", {"i64[2]", {-4611686018427387904.0, 5}}},
      {"i32", {"i32[1, 1, 1]", {-7}}},
      {"i16", {"i16[2]", {-32768, 3}}},
      {"i8", {"i8[2]", {-128, 127}}},
      {"u64", {"u64[1]", {9223372036854775808.0}}},
      {"u32", {"u32[1]", {4294967295.0}}},
      {"u16", {"u16[1]", {65535}}},
      {"u8", {"u8[2, 2]", {0, 1, 2, 3}}},
      {"bool", {"bool[3]", {1, 0, 1}}},
      {"scalar", {"f32[]", {2.5}}},
      {"none", {"f32[0, 3]", {}}},
  };
  return all;
}

TEST(Npy, ReadsEveryDtypeThatNumpyWrites) {
  for (const auto& [name, expected] : made_by_numpy()) {
    const Tensor tensor = read_npy(golden(name + ".npy"));
    EXPECT_EQ(to_string(tensor.type()), expected.first) << name;
    EXPECT_EQ(tensor.to_vector(), expected.second) << name;
  }
}

TEST(Npy, ReadsFortranOrderOtherByteOrderAndVersionTwo) {
  const Tensor fortran = read_npy(golden("fortran.npy"));
  EXPECT_EQ(to_string(fortran.type()), "i32[2, 3, 4]");
  Values counting;
  for (int i = 0; i < 24; ++i) counting.push_back(i);
  EXPECT_EQ(fortran.to_vector(), counting);
  EXPECT_EQ(read_npy(golden("big_endian.npy")).to_vector(), (Values{0, 1, 2, 3, 4}));
  EXPECT_EQ(read_npy(golden("version2.npy")).to_vector(), (Values{0, 1, 2}));
}

TEST(Npy, WritesTheFileThatNumpyWrites) {
  for (const auto& [name, expected] : made_by_numpy()) {
    const testing::TemporaryFolder folder;
    write_npy(folder / "a.npy", read_npy(golden(name + ".npy"))).value();
    EXPECT_EQ(read_text(folder / "a.npy"), read_text(golden(name + ".npy"))) << name;
  }
}

TEST(Npy, KeepsBfloat16) {
  const testing::TemporaryFolder folder;
  write_npy(folder / "b.npy", from_doubles(Values{1.5, -2}, {2}, DType::bf16)).value();
  const Tensor back = read_npy(folder / "b.npy");
  EXPECT_EQ(back.dtype(), DType::bf16);
  EXPECT_EQ(back.to_vector(), (Values{1.5, -2}));
}

TEST(Npy, RefusesEveryTruncation) {
  const std::string whole = read_text(golden("f32.npy"));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(error_of([&] { parse_npy(as_bytes(whole.substr(0, size)), "f"); }), "") << size;
  }
  EXPECT_NE(error_of([&] { parse_npy(as_bytes(whole + "x"), "f"); }), "");
}

std::string npy_with(const std::string& dict) {
  std::string file = "\x93NUMPY";
  file += {1, 0, static_cast<char>(dict.size() & 0xFF), static_cast<char>(dict.size() >> 8)};
  return file + dict;
}

TEST(Npy, RefusesLyingHeadersSayingWhatIsWrong) {
  const auto error = [](const std::string& dict) {
    return error_of([&] { parse_npy(as_bytes(npy_with(dict)), "f.npy"); });
  };
  EXPECT_NE(error("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }").find("bytes of data"),
            std::string::npos);
  EXPECT_NE(error("{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 16), }"), "");
  EXPECT_NE(error("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }").find("at least 0"), std::string::npos);
  EXPECT_NE(error("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }").find("'|O'"), std::string::npos);
  EXPECT_NE(error("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }").find("structured"),
            std::string::npos);
  EXPECT_NE(error("{'descr': '<f4', 'shape': (1,), }").find("fewer"), std::string::npos);
  EXPECT_NE(error("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,), }").find("once"),
            std::string::npos);
  EXPECT_NE(error("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }").find("axes"),
            std::string::npos);
  EXPECT_NE(error("not a dict"), "");
  const Tensor large = read_npy(golden("f64.npy"));
  EXPECT_NE(error_of([] { read_npy(golden("f64.npy"), {.most_bytes = 31}); }).find("at most 31"), std::string::npos);
}

TEST(Npz, ReadsStoredAndDeflatedArchivesOfNumpy) {
  for (const char* name : {"stored.npz", "deflated.npz"}) {
    const auto arrays = read_npz(golden(name));
    ASSERT_EQ(arrays.size(), made_by_numpy().size());
    for (const auto& [key, tensor] : arrays) {
      EXPECT_EQ(to_string(tensor.type()), made_by_numpy().at(key).first) << key;
      EXPECT_EQ(tensor.to_vector(), made_by_numpy().at(key).second) << key;
    }
  }
}

TEST(Npz, RoundTrips) {
  for (const bool compress : {false, true}) {
    const testing::TemporaryFolder folder;
    const auto arrays = read_npz(golden("stored.npz"));
    write_npz(folder / "a.npz", arrays, {.compress = compress}).value();
    const auto back = read_npz(folder / "a.npz");
    ASSERT_EQ(back.size(), arrays.size());
    for (std::size_t i = 0; i < back.size(); ++i) {
      EXPECT_EQ(back[i].name, arrays[i].name);
      EXPECT_EQ(back[i].tensor.type(), arrays[i].tensor.type());
      EXPECT_EQ(back[i].tensor.to_vector(), arrays[i].tensor.to_vector());
    }
  }
}

TEST(Npz, RefusesEveryTruncationAndEveryFlippedByteOfItsData) {
  const std::string whole = read_text(golden("deflated.npz"));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(error_of([&] { parse_npz(as_bytes(whole.substr(0, size)), "f"); }), "") << size;
  }
  // Damage in dates and versions may go unnoticed; whatever is read must equal what was written.
  const auto expected = parse_npz(as_bytes(whole), "f");
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x40);
    const auto read = attempt([&] { return parse_npz(as_bytes(damaged), "f"); });
    if (!read) continue;
    ASSERT_EQ(read->size(), expected.size()) << at;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ((*read)[i].tensor.to_vector(), expected[i].tensor.to_vector()) << at;
    }
  }
}

TEST(Npz, UnpacksTheArrayAskedForAndNoOther) {
  const testing::TemporaryFolder folder;
  const std::vector<NamedTensor> arrays = {{"large", zeros({1000}, DType::u8)}, {"small", zeros({3}, DType::u8)}};
  write_npz(folder / "a.npz", arrays).value();
  // The first array exceeds the limit, so decompressing it on the way would show.
  EXPECT_EQ(read_npz_array(folder / "a.npz", "small", {.most_bytes = 500}).numel(), 3);
  EXPECT_NE(error_of([&] { read_npz_array(folder / "a.npz", "large", {.most_bytes = 500}); }), "");
  EXPECT_NE(error_of([&] { read_npz_array(folder / "a.npz", "x"); }).find("an array 'x', got large, small"),
            std::string::npos);
}

TEST(Npz, StopsAtItsLimitBeforeUnpacking) {
  const testing::TemporaryFolder folder;
  const std::vector<NamedTensor> zeros_only = {{"zeros", zeros({4'000'000}, DType::u8)}};
  write_npz(folder / "bomb.npz", zeros_only, {.compress = true}).value();
  EXPECT_LT(std::filesystem::file_size(folder / "bomb.npz"), 10'000U);
  EXPECT_NE(error_of([&] { read_npz(folder / "bomb.npz", {.most_bytes = 1'000'000}); }).find("at most 1000000"),
            std::string::npos);
  EXPECT_EQ(read_npz(folder / "bomb.npz")[0].tensor.numel(), 4'000'000);
}

TEST(Npz, RefusesASizeThatNoDeflateStreamReaches) {
  std::string whole = read_text(golden("deflated.npz"));
  const auto directory = whole.find("PK\1\2");
  ASSERT_NE(directory, std::string::npos);
  for (std::size_t i = 0; i < 4; ++i) whole[directory + 24 + i] = i == 3 ? '\x7f' : '\xff';  // unpacked size: 2 GiB
  EXPECT_NE(error_of([&] { parse_npz(as_bytes(whole), "f"); }).find("fit the file"), std::string::npos);
}

TEST(Npy, AFileThatIsCutOffUnderARunIsTold) {
  const testing::TemporaryFolder folder;
  const std::string file = (folder / "x.npy").string();
  write_npy(file, from_host<float>(std::vector<float>(32'000, 1.5F), {4000, 8})).value();
  const TensorDataset data({read_npy(file)});
  const Tensor out[] = {empty({1, 8}, DType::f32)};
  const std::int64_t last = 3999;
  data.gather({&last, 1}, out);
  EXPECT_EQ(out[0].to_vector(), std::vector<double>(8, 1.5));
  ASSERT_EQ(::truncate(file.c_str(), 5000), 0);
  const std::string error = testing::error_of([&] { data.gather({&last, 1}, out); });
  EXPECT_NE(error.find(file + " to stay as it was"), std::string::npos) << error;
}

}  // namespace
}  // namespace starling::data
