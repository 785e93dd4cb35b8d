#include "starling/data/formats/safetensors.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "fuzz/safetensors_fuzz.cpp"  // the entry of the fuzzer, run here on a few hundred inputs
#include "starling/base/bytes.h"
#include "testing/temporary_folder.h"

namespace starling::data {
namespace {

using testing::error_of;
using testing::read_text;
using testing::write_text;

Tensor floats(const std::vector<double>& values, const Shape& shape, DType dtype = DType::f32) {
  return from_doubles(values, shape, dtype);
}

std::string with_length(const std::string& json, const std::string& data = "") {
  const std::uint64_t length = json.size();
  std::string text(8, '\0');
  std::memcpy(text.data(), &length, 8);
  return text + json + data;
}

std::string refusal(const std::string& file) {
  return error_of([&] { parse_safetensors_header(as_bytes(file), "f"); });
}

std::string one_tensor(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

TEST(Safetensors, BringsBackEveryDtypeByteForByte) {
  const testing::TemporaryFolder folder;
  std::vector<NamedTensor> tensors;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    tensors.push_back({std::string(name(dtype)), floats({0, 1, 0, 1, 1, 0}, {2, 3}, dtype)});
  }
  tensors.push_back({"scalar", floats({-2.5}, {})});
  tensors.push_back({"none", floats({}, {0, 4})});
  write_safetensors(folder / "t", tensors, {{"who", "a \"test\""}}).value();
  const auto file = SafetensorsFile::open(folder / "t").value();
  EXPECT_EQ(file.metadata().at("who"), "a \"test\"");
  ASSERT_EQ(file.entries().size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const Tensor back = file.tensor(name);
    EXPECT_EQ(back.type(), tensor.type()) << name;
    EXPECT_EQ(back.to_vector(), tensor.to_vector()) << name;
  }
}

TEST(Safetensors, ViewsTheFileWithoutCopying) {
  const testing::TemporaryFolder folder;
  write_safetensors(folder / "t", std::vector<NamedTensor>{{"a", floats({1, 2}, {2})}, {"b", floats({3, 4}, {2})}})
      .value();
  Tensor a;
  {
    const auto file = SafetensorsFile::open(folder / "t").value();
    a = file.tensor("a");
    EXPECT_EQ(static_cast<std::byte*>(file.tensor("b").raw()) - static_cast<std::byte*>(a.raw()), 8);
    EXPECT_TRUE(a.impl()->storage->read_only());
    EXPECT_THROW(copy_into(a, floats({1, 2}, {2})), Error);
  }
  EXPECT_EQ(a.to_vector(), (std::vector<double>{1, 2}));  // the mapping outlives the file object
}

TEST(Safetensors, KeepsEveryTensorAligned) {
  const testing::TemporaryFolder folder;
  const std::vector<NamedTensor> tensors = {{"odd", floats({1, 1, 1}, {3}, DType::u8)},
                                            {"half", floats({1}, {1}, DType::f16)},
                                            {"wide", floats({1, 2}, {2}, DType::f64)},
                                            {"f", floats({1}, {1})}};
  write_safetensors(folder / "t", tensors).value();
  const auto file = SafetensorsFile::open(folder / "t").value();
  for (const auto& entry : file.entries()) {
    EXPECT_TRUE(file.tensor(entry.name).impl()->storage->read_only()) << entry.name;  // a view, so it was aligned
  }
  EXPECT_EQ(file.entries().front().name, "wide");
}

TEST(Safetensors, CopiesATensorThatIsNotAligned) {
  const testing::TemporaryFolder folder;
  const float value = 7.25F;
  std::string data(5, '\1');
  std::memcpy(data.data() + 1, &value, 4);
  const std::string json =
      R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})";
  write_text(folder / "t", with_length(json, data));
  EXPECT_EQ(SafetensorsFile::open(folder / "t").value().tensor("a").item(), 7.25);
}

TEST(Safetensors, WritesStridedTensorsInRowMajorOrder) {
  const testing::TemporaryFolder folder;
  const Tensor matrix = floats({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor turned = view_of(matrix, {3, 2}, {1, 3}, 0);
  write_safetensors(folder / "t", std::vector<NamedTensor>{{"a", turned}}).value();
  EXPECT_EQ(SafetensorsFile::open(folder / "t").value().tensor("a").to_vector(),
            (std::vector<double>{1, 4, 2, 5, 3, 6}));
}

TEST(Safetensors, NamesTheNearestTensorWhenOneIsMissing) {
  const testing::TemporaryFolder folder;
  write_safetensors(folder / "t", std::vector<NamedTensor>{{"conv.weight", floats({1}, {1})}}).value();
  const auto file = SafetensorsFile::open(folder / "t").value();
  EXPECT_NE(error_of([&] { file.tensor("conv.wieght"); }).find("did you mean 'conv.weight'"), std::string::npos);
}

TEST(Safetensors, RefusesBoolsThatAreNeitherTrueNorFalse) {
  const testing::TemporaryFolder folder;
  write_text(folder / "t", with_length(one_tensor("BOOL", "[2]", "[0,2]"), "\1\2"));
  const auto file = SafetensorsFile::open(folder / "t").value();
  EXPECT_NE(error_of([&] { file.tensor("a"); }).find("expected 0 or 1"), std::string::npos);
}

TEST(Safetensors, RefusesToWriteWhatCannotBeRead) {
  const testing::TemporaryFolder folder;
  const Tensor one = floats({1}, {1});
  const auto write = [&](const std::vector<NamedTensor>& tensors) {
    return error_of([&] { write_safetensors(folder / "t", tensors).value(); });
  };
  EXPECT_NE(write({{"a", one}, {"a", one}}), "");
  EXPECT_NE(write({{"__metadata__", one}}), "");
  EXPECT_NE(write({{"\xff", one}}), "");
  EXPECT_NE(write({{"a", Tensor()}}), "");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Safetensors, RefusesLyingLengths) {
  EXPECT_NE(refusal("").find("8 bytes"), std::string::npos);
  std::string huge(16, '\xff');
  EXPECT_NE(refusal(huge).find("100000000"), std::string::npos);
  std::string longer = with_length("{}");
  longer[0] = 9;
  EXPECT_NE(refusal(longer).find("within the 10 bytes"), std::string::npos);
  EXPECT_EQ(refusal(with_length("{}")), "");
  EXPECT_NE(refusal(with_length("{}", "x")), "");  // data that no tensor owns
}

TEST(Safetensors, RefusesTensorsThatDoNotFitTheFile) {
  EXPECT_EQ(refusal(with_length(one_tensor("F32", "[2]", "[0,8]"), std::string(8, 0))), "");
  const std::vector<std::vector<std::string>> bad = {{"F32", "[2]", "[0,9]"},
                                                     {"F32", "[3]", "[0,8]"},
                                                     {"F32", "[2]", "[8,0]"},
                                                     {"F32", "[2]", "[4,8]"},
                                                     {"F32", "[2]", "[0,8,8]"},
                                                     {"F32", "[2]", "[0]"},
                                                     {"F32", "[-2]", "[0,8]"},
                                                     {"F32", "[2.0]", "[0,8]"},
                                                     {"F31", "[2]", "[0,8]"},
                                                     {"F32", "[[2]]", "[0,8]"},
                                                     {"F32", "2", "[0,8]"},
                                                     {"F32", "[2]", "[-8,0]"},
                                                     {"F32", "[2]", "[0,\"8\"]"},
                                                     {"F32", "[4611686018427387904,4]", "[0,0]"},
                                                     {"F32", "[9223372036854775808]", "[0,8]"},
                                                     {"F32", "[2,1,1,1,1,1,1,1,1]", "[0,8]"},
                                                     {"F32", "[2]", "[0,18446744073709551615]"}};
  for (const auto& parts : bad) {
    EXPECT_NE(refusal(with_length(one_tensor(parts[0], parts[1], parts[2]), std::string(8, 0))), "")
        << parts[0] << parts[1] << parts[2];
  }
}

TEST(Safetensors, RefusesOverlapsGapsAndRepeats) {
  const auto two = [](const std::string& second, const std::string& offsets) {
    return with_length(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},")" + second +
                           R"(":{"dtype":"U8","shape":[4],"data_offsets":)" + offsets + "}}",
                       std::string(8, 0));
  };
  EXPECT_EQ(refusal(two("b", "[4,8]")), "");
  EXPECT_NE(refusal(two("b", "[2,6]")), "");
  EXPECT_NE(refusal(two("b", "[0,4]")), "");
  EXPECT_NE(refusal(two("a", "[4,8]")), "");
}

TEST(Safetensors, RefusesJsonOfAnotherForm) {
  for (const char* json :
       {"[]", "{", "{]", "{\"a\":1}", "{\"a\":{}}", "{\"a\":null}", "{\"a\":[[[[[[[[", "{\"__metadata__\":{\"a\":1}}",
        "{\"__metadata__\":{\"a\":{}}}", "{\"a\":{\"dtype\":\"F32\",\"colour\":\"red\"}}", "{} x", " {}"}) {
    EXPECT_NE(refusal(with_length(json)), "") << json;
  }
  EXPECT_NE(refusal(with_length("{" + std::string(100000, '['))), "");
}

TEST(Safetensors, SurvivesMutatedFiles) {
  const testing::TemporaryFolder folder;
  write_safetensors(folder / "t", std::vector<NamedTensor>{{"a", floats({1, 2}, {2})}, {"b", floats({3}, {1, 1})}},
                    {{"k", "v"}})
      .value();
  const std::string good = read_text(folder / "t");
  std::mt19937 random(7);
  const std::string alphabet = "{}[]\":,0123456789-eFU\\\xff ";
  int refused = 0;
  for (int i = 0; i < 600; ++i) {
    std::string bad = good;
    for (unsigned k = 0; k <= random() % 3; ++k) bad[random() % 200] = alphabet[random() % alphabet.size()];
    if (i % 5 == 0) bad.resize(random() % bad.size());
    EXPECT_EQ(LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bad.data()), bad.size()), 0);
    refused += refusal(bad).empty() ? 0 : 1;
  }
  EXPECT_GT(refused, 300);
}

}  // namespace
}  // namespace starling::data
