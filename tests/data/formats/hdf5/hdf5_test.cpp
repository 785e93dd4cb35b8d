#include "starling/data/formats/hdf5.h"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "data/formats/hdf5/hdf5_writer.h"
#include "starling/data/datasets/hdf5_dataset.h"
#include "starling/data/formats/hdf5_path.h"
#include "starling/data/source.h"
#include "testing/temporary_folder.h"

namespace starling::data {
namespace {

using testing::error_of;
using testing::Hdf5Writer;
using testing::TemporaryFolder;
using Numbers = std::vector<double>;

Numbers counted(std::size_t count) {
  Numbers values(count);
  std::iota(values.begin(), values.end(), 0);
  return values;
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

Tensor samples_of(const Dataset& data, std::vector<std::int64_t> rows, std::size_t field = 0) {
  std::vector<Tensor> out;
  for (auto type : data.fields()) {
    type.shape.insert(0, std::ssize(rows));
    out.push_back(empty(type.shape, type.dtype));
  }
  data.gather(rows, out);
  return out[field];
}

DataSplits hdf5_source(const std::string& options) {
  return source_kinds().choose(ConfigNode::parse("{name: hdf5, " + options + "}", "job.yaml")).make()();
}

TEST(Hdf5, NumbersOfEveryTypeAndByteOrderAreRead) {
  const TemporaryFolder folder;
  const std::vector<std::tuple<const char*, hid_t, DType>> kinds = {
      {"f64", H5T_IEEE_F64LE, DType::f64},  {"f64be", H5T_IEEE_F64BE, DType::f64},
      {"f32", H5T_IEEE_F32LE, DType::f32},  {"f32be", H5T_IEEE_F32BE, DType::f32},
      {"i64", H5T_STD_I64LE, DType::i64},   {"i32be", H5T_STD_I32BE, DType::i32},
      {"i16", H5T_STD_I16LE, DType::i16},   {"i8", H5T_STD_I8LE, DType::i8},
      {"u64", H5T_STD_U64LE, DType::u64},   {"u32", H5T_STD_U32LE, DType::u32},
      {"u16be", H5T_STD_U16BE, DType::u16}, {"u8", H5T_STD_U8LE, DType::u8}};
  {
    const Hdf5Writer file(folder / "a.h5");
    for (const auto& [name, type, dtype] : kinds) file.add(name, type, {2, 3}, {0, 1, 2, 3, 100, 127});
    file.add_bools("bools", {1, 0, 1});
  }
  for (const auto& [name, type, dtype] : kinds) {
    const Tensor read = read_hdf5(folder / "a.h5", name);
    EXPECT_EQ(to_string(read.type()), to_string(TensorType{dtype, {2, 3}})) << name;
    EXPECT_EQ(read.to_vector(), (Numbers{0, 1, 2, 3, 100, 127})) << name;
  }
  EXPECT_EQ(read_hdf5(folder / "a.h5", "bools").to_vector(), (Numbers{1, 0, 1}));
  EXPECT_EQ(to_string(open_hdf5(folder / "a.h5", "i16", DType::i64)->type()), "i64[2, 3]");
}

TEST(Hdf5, SlicesOfChunkedAndCompressedArraysAreThoseOfTheWhole) {
  const TemporaryFolder folder;
  for (const bool latest : {false, true}) {
    {
      const Hdf5Writer file(folder / "a.h5", latest);
      file.add("plain", H5T_IEEE_F32LE, {50, 6}, counted(300));
      file.add("chunked", H5T_IEEE_F32LE, {50, 6}, counted(300), {.chunk = {8, 4}});
      file.add("packed", H5T_IEEE_F32LE, {50, 6}, counted(300), {.chunk = {7, 6}, .compress = true});
    }
    for (const char* name : {"plain", "chunked", "packed"}) {
      const auto array = open_hdf5(folder / "a.h5", name);
      EXPECT_EQ(read_hdf5(*array).to_vector(), counted(300)) << name;
      std::vector<float> slice(12);
      array->read(13, 2, std::as_writable_bytes(std::span(slice)));
      EXPECT_EQ(slice.front(), 78) << name;
      EXPECT_EQ(slice.back(), 89) << name;
      EXPECT_TRUE(says(error_of([&] { array->read(49, 2, std::as_writable_bytes(std::span(slice))); }), "below 50"));
      EXPECT_TRUE(says(error_of([&] { array->read(0, 1, std::as_writable_bytes(std::span(slice))); }), "24 bytes"));
    }
  }
}

TEST(Hdf5, ListsTheArraysOfGroupsAndSaysWhatIsNoNumbers) {
  const TemporaryFolder folder;
  {
    const Hdf5Writer file(folder / "a.h5");
    file.add("train/x", H5T_IEEE_F32LE, {4, 2}, counted(8));
    file.add("rate", H5T_IEEE_F64LE, {}, {0.5});
    file.add_text("names", {"cat", "dog"});
  }
  std::string told;
  for (const auto& entry : list_hdf5(folder / "a.h5"))
    told += entry.name + " " + (entry.type ? to_string(*entry.type) : entry.what) + "; ";
  EXPECT_EQ(told, "names text; rate f64[]; train/x f32[4, 2]; ");
  const std::string file = (folder / "a.h5").string();
  EXPECT_TRUE(says(error_of([&] { open_hdf5(file, "names"); }), "expected numbers, got text"));
  EXPECT_TRUE(says(error_of([&] { open_hdf5(file, "rate"); }), "got one number"));
  EXPECT_TRUE(says(error_of([&] { open_hdf5(file, "train/y"); }), "got 'train/y' (did you mean 'train/x'?)"));
  EXPECT_TRUE(says(error_of([&] { open_hdf5(file, "train"); }), "got 'train'"));
  EXPECT_TRUE(says(error_of([&] { read_hdf5(file, "train/x", {.most_bytes = 31}); }), "at most 31 bytes"));
  EXPECT_TRUE(says(error_of([&] { list_hdf5(folder / "none.h5"); }), "none.h5"));
}

TEST(Hdf5, AFileAndAnArrayAreTakenApart) {
  EXPECT_EQ(parse_hdf5_path("a/b.h5")->file, "a/b.h5");
  EXPECT_EQ(parse_hdf5_path("a/b.h5")->array, "");
  EXPECT_EQ(parse_hdf5_path("b.hdf5:train/x")->file, "b.hdf5");
  EXPECT_EQ(parse_hdf5_path("b.hdf5:train/x")->array, "train/x");
  EXPECT_FALSE(parse_hdf5_path("b.npz:x").has_value());
}

TEST(Hdf5, SamplesAreTheSameWhetherTheArrayIsKeptOrReadWhenAskedFor) {
  const TemporaryFolder folder;
  {
    const Hdf5Writer file(folder / "a.h5");
    file.add("x", H5T_IEEE_F32LE, {50, 6}, counted(300), {.chunk = {7, 6}, .compress = true});
    file.add("y", H5T_STD_I32LE, {50}, counted(50));
  }
  const std::vector<std::shared_ptr<const Hdf5Array>> arrays = {open_hdf5(folder / "a.h5", "x"),
                                                                open_hdf5(folder / "a.h5", "y")};
  const Hdf5Dataset kept(arrays), sliced(arrays, 0);
  for (const auto& rows : {std::vector<std::int64_t>{3, 4, 5, 49, 0}, {7, 7, 6}, {}}) {
    for (const std::size_t field : {0U, 1U})
      EXPECT_EQ(samples_of(kept, rows, field).to_vector(), samples_of(sliced, rows, field).to_vector());
  }
  EXPECT_EQ(samples_of(sliced, {7, 7, 6}, 1).to_vector(), (Numbers{7, 7, 6}));
  EXPECT_TRUE(says(error_of([&] { samples_of(sliced, {50}); }), "below 50"));
}

TEST(Hdf5, AnArrayLargerThanMemoryIsReadSampleBySample) {
  const TemporaryFolder folder;
  {
    const Hdf5Writer file(folder / "large.h5");
    file.add("x", H5T_IEEE_F32LE, {std::uint64_t{1} << 40, 1024}, {}, {.chunk = {16, 1024}, .compress = true});
  }
  const Hdf5Dataset data({open_hdf5(folder / "large.h5", "x")});
  EXPECT_EQ(data.size(), std::int64_t{1} << 40);
  EXPECT_EQ(samples_of(data, {(std::int64_t{1} << 40) - 1, 5}).to_vector(), Numbers(2048, 0));
  EXPECT_TRUE(says(error_of([&] { read_hdf5(folder / "large.h5", "x"); }), "expected at most"));
}

TEST(Hdf5, ThreadsMayReadAtTheSameTime) {
  const TemporaryFolder folder;
  {
    const Hdf5Writer file(folder / "a.h5");
    file.add("x", H5T_IEEE_F32LE, {64, 4}, counted(256), {.chunk = {4, 4}, .compress = true});
  }
  const Hdf5Dataset data({open_hdf5(folder / "a.h5", "x")}, 0);
  std::vector<int> wrong(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (std::int64_t i = 0; i < 64; ++i) {
        const std::int64_t row = (i * 7 + static_cast<std::int64_t>(t)) % 64;
        wrong[t] += samples_of(data, {row}).to_vector()[1] == static_cast<double>(4 * row + 1) ? 0 : 1;
      }
      wrong[t] += list_hdf5(folder / "a.h5").size() == 1 ? 0 : 1;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
}

TEST(Hdf5, TheSourceGivesSamplesLabelsAndClasses) {
  const TemporaryFolder folder;
  {
    const Hdf5Writer file(folder / "a.h5"), test(folder / "test.h5"), wrong(folder / "wrong.h5");
    file.add("train/x", H5T_STD_U8LE, {4, 2}, counted(8));
    file.add("train/y", H5T_STD_U8LE, {4}, {0, 2, 1, 1});
    test.add("x", H5T_STD_U8LE, {2, 2}, counted(4));
    test.add("y", H5T_STD_I16BE, {2}, {2, 0});
    wrong.add("x", H5T_STD_U8LE, {2, 2}, counted(4));
    wrong.add("high", H5T_STD_I16BE, {2}, {3, 0});
    wrong.add("low", H5T_STD_I16BE, {2}, {-1, 0});
    wrong.add("more", H5T_STD_I16BE, {3}, {0, 0, 0});
  }
  const std::string place = folder.path().string() + "/";
  const std::string train = "file: " + place + "a.h5, train: [train/x, train/y]";
  const auto splits = hdf5_source(train + ", test_file: " + place + "test.h5, test: [x, y]");
  EXPECT_EQ(splits.classes, 3);
  EXPECT_EQ(to_string(splits.train->fields()[0]), "u8[2]");
  EXPECT_EQ(to_string(splits.train->fields()[1]), "i64[]");
  EXPECT_EQ(samples_of(*splits.train, {2, 1}, 1).to_vector(), (Numbers{1, 2}));
  EXPECT_EQ(samples_of(*splits.test, {0, 1}, 1).to_vector(), (Numbers{2, 0}));
  EXPECT_EQ(splits.raw.dump(), R"({"dtype":"u8","kind":"array","shape":[2]})");
  const auto refused = [&](const std::string& more) { return error_of([&] { hdf5_source(more); }); };
  const std::string wrong = "file: " + place + "wrong.h5, train: [x, ";
  EXPECT_TRUE(says(refused(train + ", test_file: " + place + "wrong.h5, test: [x, high]"), "of 0 to 2, got 0 to 3"));
  EXPECT_TRUE(says(refused(wrong + "low], classes: 3"), "of 0 to 2, got -1 to 0"));
  EXPECT_EQ(hdf5_source(wrong + "low]").classes, 0) << "whole numbers that are no labels";
  EXPECT_TRUE(says(refused(wrong + "more]"), "equally many samples, got 2 and 3"));
  EXPECT_TRUE(says(refused(train + ", class_names: [a, b]"), "each of the 3 classes, got 2"));
  EXPECT_TRUE(says(refused(train + ", test_file: " + place + "test.h5"), "data.test"));
}

}  // namespace
}  // namespace starling::data
