#include "starling/data/source.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <numeric>
#include <set>

#include "byte_helpers.h"
#include "starling/base/bytes.h"
#include "starling/data/datasets/fashion_mnist.h"
#include "starling/data/formats/example.h"
#include "starling/data/formats/image.h"
#include "starling/data/formats/safetensors.h"
#include "starling/data/formats/tfrecord.h"
#include "starling/data/loading/loader.h"
#include "starling/data/loading/split.h"
#include "starling/data/records/csv_table.h"
#include "starling/data/tokenizers/tokenizer.h"
#include "testing/temporary_folder.h"

namespace starling::data {
namespace {

using testing::error_of;
using testing::golden;
using testing::TemporaryFolder;
using testing::write_text;
using Values = std::vector<double>;

DataSplits source(const std::string& yaml) {
  return source_kinds().choose(ConfigNode::parse(yaml, "job.yaml")).make()();
}

Values first(const Tensor& tensor, std::size_t count) {
  auto values = tensor.to_vector();
  values.resize(count);
  return values;
}

// Rows of a data set, one tensor per field.
std::vector<Tensor> rows_of(const Dataset& data, std::vector<std::int64_t> rows) {
  std::vector<Tensor> out;
  for (auto type : data.fields()) {
    type.shape.insert(0, std::ssize(rows));
    out.push_back(empty(type.shape, type.dtype));
  }
  data.gather(rows, out);
  return out;
}
std::vector<Tensor> all_of(const Dataset& data) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(data.size()));
  std::iota(rows.begin(), rows.end(), 0);
  return rows_of(data, rows);
}

std::vector<Tensor> all_of(const RecordShards& shards) {
  std::vector<Tensor> columns;
  std::vector<std::vector<double>> values(shards.decoder->fields().size());
  std::int64_t count = 0;
  for (const auto& file : shards.files) {
    const auto reader = shards.open(file, 0);
    while (const Record* record = reader->next()) {
      std::vector<Tensor> out;
      for (const auto& type : shards.decoder->fields()) out.push_back(empty(type.shape, type.dtype));
      shards.decoder->decode(*record, file.string(), out);
      for (std::size_t f = 0; f < out.size(); ++f) {
        for (double value : out[f].to_vector()) values[f].push_back(value);
      }
      ++count;
    }
  }
  for (std::size_t f = 0; f < values.size(); ++f) {
    auto type = shards.decoder->fields()[f];
    type.shape.insert(0, count);
    columns.push_back(from_doubles(values[f], type.shape, type.dtype));
  }
  return columns;
}

TEST(Sources, FashionMnistIsWhatTheOldLoaderGives) {
  const auto splits = source("{name: fashion_mnist, train_limit: 500, test_limit: 300}");
  EXPECT_EQ(splits.classes, 10);
  EXPECT_EQ(splits.class_names.at(9), "Ankle boot");
  EXPECT_EQ(splits.train->size(), 500);
  EXPECT_EQ(splits.test->size(), 300);
  const auto test = load_fashion_mnist(Split::test);
  const auto rows = rows_of(*splits.test, {0, 299});
  for (std::int64_t i = 0; i < 784; ++i) {
    ASSERT_NEAR(rows[0].data<float>()[i], test.images.data<float>()[i], 1e-6);
    ASSERT_NEAR(rows[0].data<float>()[784 + i], test.images.data<float>()[299 * 784 + i], 1e-6);
  }
  EXPECT_EQ(rows[1].data<std::int64_t>()[1], test.labels.data<std::int64_t>()[299]);
  const auto bytes = source("{name: fashion_mnist, bytes: true, test_limit: 1}");
  EXPECT_EQ(to_string(bytes.test->fields()[0]), "u8[1, 28, 28]");
}

TEST(Sources, KeepAValidationShareThatDependsOnTheSeedAlone) {
  const auto splits = source("{name: synthetic, train_samples: 2000, shape: [2], valid_share: 0.25}");
  EXPECT_EQ(splits.train->size() + splits.valid->size(), 2000);
  EXPECT_NEAR(static_cast<double>(splits.valid->size()), 500, 70);
  const auto again = source("{name: synthetic, train_samples: 2000, shape: [2], valid_share: 0.25}");
  EXPECT_EQ(all_of(*splits.valid)[0].to_vector(), all_of(*again.valid)[0].to_vector());
  const auto other = source("{name: synthetic, train_samples: 2000, shape: [2], valid_share: 0.25, split_seed: 1}");
  EXPECT_NE(all_of(*splits.valid)[0].to_vector(), all_of(*other.valid)[0].to_vector());
}

TEST(Sources, SyntheticSamplesAreAFunctionOfTheirNumber) {
  const auto splits = source("{name: synthetic, train_samples: 300, shape: [3, 2], classes: 3, noise: 0.1}");
  const auto some = rows_of(*splits.train, {7, 3, 7});
  EXPECT_EQ(rows_of(*splits.train, {7})[0].to_vector(), first(some[0], 6));
  const auto all = all_of(*splits.train);
  std::set<double> labels;
  for (double label : all[1].to_vector()) labels.insert(label);
  EXPECT_EQ(labels, (std::set<double>{0, 1, 2}));
  EXPECT_NE(all[0].to_vector(), all_of(*splits.test)[0].to_vector());
}

TEST(Sources, CifarTenReadsAllBatches) {
  const TemporaryFolder folder;
  for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                           "data_batch_5.bin", "test_batch.bin"}) {
    std::filesystem::copy_file(golden("cifar10.bin"), folder / name);
  }
  const auto splits = source("{name: cifar10, bytes: true, folder: " + folder.path().string() + "}");
  EXPECT_EQ(splits.train->size(), 15);
  EXPECT_EQ(splits.test->size(), 3);
  EXPECT_EQ(all_of(*splits.test)[0].to_vector(), testing::golden_arrays("cifar.npz").at("images").to_vector());
  EXPECT_EQ(rows_of(*splits.train, {4, 14})[1].to_vector(), (Values{9, 0}));
  const auto scaled =
      source("{name: cifar10, mean: [0, 0, 0.5], std: [1, 1, 2], folder: " + folder.path().string() + "}");
  const auto first = rows_of(*scaled.test, {0})[0], raw = rows_of(*splits.test, {0})[0];
  EXPECT_NEAR(first.data<float>()[2048], (raw.data<std::uint8_t>()[2048] / 255.0F - 0.5F) / 2, 1e-6);
  EXPECT_NEAR(first.data<float>()[5], raw.data<std::uint8_t>()[5] / 255.0F, 1e-6);
}

TEST(Sources, ImageFoldersHaveAClassForEachFolder) {
  if (!has_png() || !has_jpeg()) GTEST_SKIP() << "a build without the libraries";
  const TemporaryFolder folder;
  for (const char* name : {"cat", "dog", ".hidden"}) std::filesystem::create_directory(folder / name);
  std::filesystem::copy_file(golden("colour.png"), folder / "cat/a.png");
  std::filesystem::copy_file(golden("grey.png"), folder / "dog/b.PNG");
  std::filesystem::copy_file(golden("colour.jpg"), folder / "dog/c.jpeg");
  write_text(folder / "dog/notes.txt", "no picture");
  const std::string yaml = "{name: image_folder, height: 37, width: 45, folder: " + folder.path().string() + "}";
  const auto splits = source(yaml);
  EXPECT_EQ(splits.class_names, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(splits.classes, 2);
  const auto all = all_of(*splits.train);
  EXPECT_EQ(to_string(all[0].type()), "u8[3, 3, 37, 45]");
  EXPECT_EQ(all[1].to_vector(), (Values{0, 1, 1}));
  // At its original size an image is unchanged, as planes.
  const Tensor expected = testing::golden_arrays("decoded.npz").at("colour.png:3");
  for (std::int64_t c = 0; c < 3; ++c) {
    for (std::int64_t i = 0; i < 37 * 45; ++i) {
      ASSERT_EQ(all[0].data<std::uint8_t>()[c * 37 * 45 + i], expected.data<std::uint8_t>()[i * 3 + c]);
    }
  }
  for (const std::string fit : {"crop", "pad", "stretch"}) {
    const auto small = source("{name: image_folder, height: 8, width: 8, channels: 1, bytes: false, fit: " + fit +
                              ", folder: " + folder.path().string() + "}");
    EXPECT_EQ(to_string(small.train->fields()[0]), "f32[1, 8, 8]");
    const auto made = all_of(*small.train)[0].to_vector();
    EXPECT_EQ(made[63] == 0, fit == "pad") << fit;  // black below a wide image
  }
  write_text(folder / "cat/broken.png", "nothing");
  EXPECT_EQ(source(yaml).train->size(), 3) << "a file that is no picture is left out";
  const auto broken = source(yaml.substr(0, yaml.size() - 1) + ", strict: true}");
  EXPECT_NE(error_of([&] { all_of(*broken.train); }).find("broken.png"), std::string::npos);
  EXPECT_NE(error_of([] { source("{name: image_folder, folder: /no/such}"); }).find("/no/such"), std::string::npos);
}

TEST(Sources, NpyAndNpzAndSafetensorsGiveTheirArrays) {
  const TemporaryFolder folder;
  const Tensor x = from_doubles(Values{1, 2, 3, 4, 5, 6}, {3, 2}), y = from_doubles(Values{0, 2, 1}, {3}, DType::i32);
  write_npy(folder / "x.npy", x).value();
  write_npy(folder / "y.npy", y).value();
  const std::vector<NamedTensor> both = {{"x", x}, {"y", from_doubles(Values{0, 2, 1}, {3}, DType::i64)}};
  write_npz(folder / "both.npz", both).value();
  write_safetensors(folder / "both.safetensors", both).value();
  const std::string place = folder.path().string() + "/";
  for (const std::string& yaml : {"{name: npy, train: [" + place + "x.npy, " + place + "y.npy]}",
                                  "{name: npy, train: ['" + place + "both.npz:x', '" + place + "both.npz:y']}",
                                  "{name: safetensors, file: " + place + "both.safetensors, train: [x, y]}"}) {
    const auto splits = source(yaml);
    EXPECT_EQ(splits.classes, 3) << yaml;
    const auto rows = rows_of(*splits.train, {2, 0});
    EXPECT_EQ(rows[0].to_vector(), (Values{5, 6, 1, 2}));
    EXPECT_EQ(rows[1].to_vector(), (Values{1, 0}));
  }
  EXPECT_NE(error_of([&] { source("{name: npy, train: ['" + place + "both.npz:z']}"); }).find("'z'"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              source("{name: npy, classes: 2, train: [" + place + "x.npy, " + place + "y.npy]}");
            }).find("0 to 1, got 0 to 2"),
            std::string::npos);
}

TEST(Sources, BytesInTheLastArrayWithOnePerSampleAreLabels) {
  const TemporaryFolder folder;
  const Tensor x = from_doubles(Values{1, 2, 3, 4}, {2, 2}, DType::u8), y = from_doubles(Values{2, 0}, {2}, DType::u8);
  write_npy(folder / "x.npy", x).value();
  write_npy(folder / "y.npy", y).value();
  const std::string place = folder.path().string() + "/";
  const auto splits = source("{name: npy, train: [" + place + "x.npy, " + place + "y.npy]}");
  EXPECT_EQ(splits.classes, 3);
  EXPECT_EQ(to_string(splits.train->fields()[0]), "u8[2]");
  EXPECT_EQ(to_string(splits.train->fields()[1]), "i64[]");
  EXPECT_EQ(to_string(source("{name: npy, train: [" + place + "y.npy]}").train->fields()[0]), "u8[]");
}

TEST(Sources, CsvHasNumbersCategoriesAndClasses) {
  const TemporaryFolder folder;
  const std::string file = (folder / "a.csv").string();
  write_text(file, "age,colour,id,kind\n30,red,x1,yes\n,blue,x2,no\n50,red,x3,yes\n");
  const std::string head = "{name: csv, train: ['" + file + "'], label: kind, categories: [colour], ignore: [id], ";
  const auto splits = source(head + "missing: mean}");
  EXPECT_EQ(splits.class_names, (std::vector<std::string>{"no", "yes"}));
  const auto all = all_of(*splits.train);
  EXPECT_EQ(all[0].to_vector(), (Values{30, 0, 1, 40, 1, 0, 50, 0, 1}));
  EXPECT_EQ(all[1].to_vector(), (Values{1, 0, 1}));
  EXPECT_EQ(all_of(*source(head + "missing: drop}").train)[0].to_vector(), (Values{30, 0, 1, 50, 0, 1}));
  EXPECT_EQ(all_of(*source(head + "missing: zero}").train)[0].to_vector()[3], 0);
  EXPECT_TRUE(std::isnan(all_of(*source(head + "missing: nan}").train)[0].to_vector()[3]));
  EXPECT_NE(error_of([&] { source(head + "missing: refuse}"); }).find("a.csv:3: expected a number"), std::string::npos);
  const auto stream = source(head + "missing: mean, streamed: true}");
  const auto streamed = all_of(*stream.train_shards);
  EXPECT_EQ(streamed[0].to_vector(), all[0].to_vector());
  EXPECT_EQ(streamed[1].to_vector(), all[1].to_vector());
  EXPECT_NE(error_of([&] { source("{name: csv, train: ['" + file + "'], label: kindd}"); }).find("did you mean 'kind'"),
            std::string::npos);
}

TEST(Sources, CsvPredictsNumbersAndCountsClassesInOrder) {
  const TemporaryFolder folder;
  const std::string file = (folder / "a.csv").string();
  write_text(file, "1;10;0.5\n2;2;1.5\n3;10;2.5\n4;9;3.5\n");
  const std::string head = "{name: csv, train: ['" + file + "'], header: false, separator: ';', ";
  const auto numbers = all_of(*source(head + "label: '2', label_kind: number}").train);
  EXPECT_EQ(numbers[1].to_vector(), (Values{0.5, 1.5, 2.5, 3.5}));
  const auto classes = source(head + "label: '1'}");
  EXPECT_EQ(classes.class_names, (std::vector<std::string>{"2", "9", "10"}));
  EXPECT_EQ(all_of(*classes.train)[1].to_vector(), (Values{2, 0, 2, 1}));
  EXPECT_EQ(to_string(source(head + "label: ''}").train->fields()[0]), "f32[3]");
}

TEST(Sources, CsvTakesNumbersOfClassesOnlyWhereTheirNamesAreGiven) {
  const TemporaryFolder folder;
  const std::string train = (folder / "train.csv").string(), test = (folder / "test.csv").string();
  write_text(train, "x,y\n1,5\n2, 7\n3,5 \n");
  write_text(test, "x,y\n1,7\n2,1\n");
  const std::string head = "{name: csv, train: ['" + train + "'], label: y";
  const auto learned = source(head + "}");
  EXPECT_EQ(learned.class_names, (std::vector<std::string>{"5", "7"}));
  EXPECT_EQ(all_of(*learned.train)[1].to_vector(), (Values{0, 1, 0}));
  const std::string error = error_of([&] { source(head + ", test: ['" + test + "']}"); });
  EXPECT_NE(error.find("test.csv:3: expected one of the classes in the column 'y', got '1'"), std::string::npos)
      << error;
  const auto given = source(head + ", class_names: ['5', '7'], test: ['" + test + "']}");
  EXPECT_EQ(all_of(*given.test)[1].to_vector(), (Values{1, 1}));
}

TEST(Sources, CsvRefusesNumbersThatWouldBecomeInfinite) {
  const TemporaryFolder folder;
  const std::string file = (folder / "a.csv").string();
  for (const std::string number : {"1e39", "-1e39"}) {
    write_text(file, "x,y\n1,0.5\n" + number + ",1\n");
    const std::string error =
        error_of([&] { source("{name: csv, train: ['" + file + "'], label: y, label_kind: number}"); });
    EXPECT_NE(error.find("a.csv:3: expected a number that f32 holds in the column 'x', got '" + number),
              std::string::npos)
        << error;
  }
}

TEST(Sources, CsvRefusesLabelsThatAreNotFinite) {
  const TemporaryFolder folder;
  const std::string file = (folder / "a.csv").string();
  for (const std::string label : {"nan", "inf", "-inf", "1e300"}) {
    write_text(file, "x,y\n1,0.5\n2," + label + "\n");
    const std::string error =
        error_of([&] { source("{name: csv, train: ['" + file + "'], label: y, label_kind: number}"); });
    EXPECT_NE(error.find("a.csv:3: expected a number in the column 'y', got '" + label), std::string::npos) << error;
  }
}

TEST(Sources, TextGivesWindowsAndTheNextTokens) {
  const TemporaryFolder folder;
  const std::string file = (folder / "a.txt").string();
  std::string text;
  for (int i = 0; i < 100; ++i) text += "abcdefghij";
  write_text(file, text);
  const auto splits = source("{name: text, files: ['" + file + "'], window: 10, valid_share: 0.1, test_share: 0.2}");
  EXPECT_EQ(splits.vocabulary, 10);
  EXPECT_EQ(splits.train->size(), 69);  // 700 tokens, the last window needs the one after it
  EXPECT_EQ(splits.valid->size(), 9);
  EXPECT_EQ(splits.test->size(), 19);
  const auto rows = rows_of(*splits.train, {0, 68});
  EXPECT_EQ(rows[0].to_vector(), (Values{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(rows[1].to_vector(), (Values{1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0}));
  const auto dense = source("{name: text, files: ['" + file + "'], window: 10, stride: 1, test_share: 0}");
  EXPECT_EQ(dense.train->size(), 990);
  EXPECT_EQ(rows_of(*dense.train, {3})[0].to_vector()[0], 3);
}

TEST(Sources, TextTakesEveryTokenizerAndKeepsItsVocabulary) {
  const TemporaryFolder folder;
  const std::string file = (folder / "a.txt").string();
  std::string text;
  for (int i = 0; i < 300; ++i) text += "the cat sat on the mat ";
  write_text(file, text);
  for (const std::string tokens : {"characters", "bytes", "bpe", "words"}) {
    const std::string vocabulary = (folder / (tokens + ".json")).string();
    const std::string yaml = "{name: text, files: ['" + file + "'], window: 4, vocabulary: 300, tokens: " + tokens +
                             ", vocabulary_file: '" + vocabulary + "'}";
    const auto splits = source(yaml);
    EXPECT_TRUE(std::filesystem::exists(vocabulary));
    const auto first = rows_of(*splits.train, {0})[0];
    const std::string decoded = splits.tokenizer->decode(std::span(first.data<std::int64_t>(), 4));
    EXPECT_TRUE(text.starts_with(decoded)) << decoded;
    EXPECT_EQ(source(yaml).vocabulary, splits.vocabulary);
  }
  const auto error = [&](const std::string& tokens, const std::string& kept) {
    return error_of([&] {
      source("{name: text, files: ['" + file + "'], window: 4, tokens: " + tokens + ", vocabulary_file: '" +
             (folder / (kept + ".json")).string() + "'}");
    });
  };
  EXPECT_NE(error("words", "characters").find("a vocabulary of words, got one of characters"), std::string::npos);
  EXPECT_NE(error("bytes", "bpe").find("a vocabulary of bytes, got one of bpe with"), std::string::npos);
}

TEST(Sources, DictionariesArePaddedPairsSplitByWord) {
  const TemporaryFolder folder;
  std::string text = ";;; a comment\n";
  for (int i = 0; i < 400; ++i) {
    std::string word;
    for (int n = i + 1; n > 0; n /= 5) word += static_cast<char>('a' + n % 5);
    text += word + " AH K\n" + word + "(2) K\n";
  }
  write_text(folder / "d.dict", text);
  const std::string head = "{name: dictionary, file: '" + (folder / "d.dict").string() +
                           "', most_source: 6, most_target: 4, test_share: 0.2, valid_share: 0.2";
  const auto splits = source(head + ", lengths: true}");
  EXPECT_EQ(splits.vocabulary, 3 + 5);
  EXPECT_EQ(splits.target_vocabulary, 3 + 2);
  EXPECT_EQ(splits.train->size() + splits.valid->size() + splits.test->size(), 400);
  EXPECT_NEAR(static_cast<double>(splits.test->size()), 80, 30);
  const auto all = all_of(*splits.train);
  EXPECT_EQ(all.size(), 4U);
  EXPECT_EQ(first(all[1], 4), (Values{3, 4, 2, 0}));
  EXPECT_EQ(all[3].to_vector()[0], 3);
  const auto* letters = all[0].data<std::int64_t>();
  EXPECT_EQ(splits.tokenizer->decode(std::span(letters, 6)).size(), static_cast<std::size_t>(all[2].to_vector()[0]));
  EXPECT_EQ(splits.target_tokenizer->decode(std::span(all[1].data<std::int64_t>(), 4)), "AH K");
  const auto more = source(head + ", alternatives: true}");
  EXPECT_EQ(more.train->size(), 2 * splits.train->size());
  const auto vocabulary = parse_tokenizer(splits.target_tokenizer->json().dump(), "v");
  EXPECT_EQ(vocabulary->encode("K AH"), (std::vector<std::int64_t>{4, 3}));
}

TEST(Sources, TheCmuDictionaryOfDebianIsRead) {
  if (!std::filesystem::exists("/usr/share/pocketsphinx/model/en-us/cmudict-en-us.dict")) {
    GTEST_SKIP() << "pocketsphinx-en-us is not installed";
  }
  const auto splits = source("{name: dictionary}");
  EXPECT_GT(splits.train->size(), 100'000);
  EXPECT_GT(splits.test->size(), 4'000);
  EXPECT_EQ(splits.target_vocabulary, 3 + 39);
  EXPECT_EQ(to_string(splits.train->fields()[1]), "i64[20]");
}

TEST(Sources, WebDatasetShardsAreDecodedByExtension) {
  const auto splits = source("{name: webdataset, train: ['" + golden("gnu.tar").string() + "'], classes: 10, fields: " +
                             "[{name: cls, kind: integers}, {name: missing|cls, kind: floats}]}");
  ASSERT_TRUE(splits.train_shards);
  const auto all = all_of(*splits.train_shards);
  EXPECT_EQ(all[0].to_vector(), (Values{3, 4}));
  EXPECT_EQ(all[1].to_vector(), (Values{3, 4}));
  const auto wrong = source("{name: webdataset, train: ['" + golden("gnu.tar").string() +
                            "'], fields: [{name: left.txt, kind: integers}]}");
  const std::string error = error_of([&] { all_of(*wrong.train_shards); });
  EXPECT_NE(error.find("field 'left.txt' of the record 'folder/0001' at byte 512"), std::string::npos) << error;
  EXPECT_NE(error.find("got 'hello'"), std::string::npos) << error;
  EXPECT_NE(error_of([] {
              source("{name: webdataset, train: [/no/such-*.tar], fields: [{name: cls}]}");
            }).find("expected files like /no/such-*.tar"),
            std::string::npos);
}

TEST(Sources, TfRecordShardsAreDecodedByFeature) {
  if (!has_example()) GTEST_SKIP() << "a build without protobuf";
  const auto splits = source("{name: tfrecord, train: ['" + golden("five.tfrecord*").string() + "'], fields: " +
                             "[{name: x, kind: floats, shape: [3]}, {name: label, kind: integers, shape: [2]}]}");
  EXPECT_EQ(splits.train_shards->files.size(), 2U);
  const auto all = all_of(*splits.train_shards);
  EXPECT_EQ(to_string(all[0].type()), "f32[10, 3]");
  EXPECT_EQ(all[0].to_vector()[3 * 8 + 1], 1.5);
  EXPECT_EQ(all[1].to_vector()[2 * 4 + 1], -4);
  const auto wrong = source("{name: tfrecord, train: ['" + golden("five.tfrecord").string() +
                            "'], fields: [{name: x, kind: floats, shape: [4]}]}");
  EXPECT_NE(error_of([&] { all_of(*wrong.train_shards); }).find("expected 4 floats, got 3"), std::string::npos);
}

TEST(Sources, PicturesInExamplesAreDecoded) {
  if (!has_example() || !has_png()) GTEST_SKIP() << "a build without protobuf or libpng";
  const TemporaryFolder folder;
  const std::string png = testing::read_text(golden("grey.png"));
  std::string file;
  append_tfrecord(file, as_bytes(format_example({{"image", std::vector<std::string>{png}}})));
  write_text(folder / "a.tfrecord", file);
  const auto splits = source("{name: tfrecord, train: ['" + (folder / "a.tfrecord").string() +
                             "'], fields: [{name: image, kind: image, shape: [1, 37, 45]}]}");
  EXPECT_EQ(all_of(*splits.train_shards)[0].to_vector(),
            testing::golden_arrays("decoded.npz").at("grey.png:1").to_vector());
}

TEST(Sources, ShardsAreADataSetByNumberWhereTheyAreIndexed) {
  const TemporaryFolder folder;
  const std::string fields = "fields: [{name: cls, kind: integers}]";
  const std::string tar = "{name: webdataset, train: ['" + golden("gnu.tar").string() + "'], " + fields;
  const auto indexes = folder / "made" / "here";
  const auto splits = source(tar + ", indexed: true, index_folder: '" + indexes.string() + "'}");
  EXPECT_FALSE(splits.train_shards);
  ASSERT_TRUE(splits.train);
  EXPECT_EQ(all_of(*splits.train)[0].to_vector(), (Values{3, 4}));
  EXPECT_TRUE(std::filesystem::exists(indexes / "gnu.tar.index"));
  EXPECT_NE(error_of([&] { source(tar + ", index_folder: '" + indexes.string() + "'}"); }).find("indexed: true"),
            std::string::npos);
  const std::string packed = "{name: webdataset, train: ['" + golden("pax.tar.gz").string() + "'], " + fields;
  EXPECT_NE(error_of([&] { source(packed + ", indexed: true}"); }).find("not compressed"), std::string::npos);
}

TEST(Sources, ShardsAndTransformsGoThroughTheLoader) {
  const TemporaryFolder folder;
  for (int shard = 0; shard < 3; ++shard) {
    std::string rows = "a,b,kind\n";
    for (int i = 0; i < 5; ++i) rows += fmt::format("{},{},{}\n", 10 * shard + i, -i, i % 2);
    write_text(folder / fmt::format("{}.csv", shard), rows);
  }
  const auto splits =
      source("{name: csv, streamed: true, label: kind, train: ['" + (folder / "*.csv").string() + "']}");
  LoaderOptions options{.batch = 4, .seed = 3, .workers = 2};
  for (const auto& step : read_transforms(ConfigNode::parse("[{name: one_hot, classes: 2}]", "job.yaml"))) {
    options.transforms.push_back(step.make());
  }
  Loader loader(*splits.train_shards, {}, options);
  EXPECT_EQ(to_string(loader.fields()[1]), "f32[2]");
  std::multiset<double> seen;
  while (const Batch* batch = loader.next()) {
    for (std::int64_t i = 0; i < batch->size; ++i) {
      const double a = batch->fields[0].data<float>()[2 * i];
      seen.insert(a);
      EXPECT_EQ(batch->fields[1].data<float>()[2 * i + 1], static_cast<int>(a) % 10 % 2);
    }
  }
  std::multiset<double> expected;
  for (int shard = 0; shard < 3; ++shard) {
    for (int i = 0; i < 5; ++i) expected.insert(10 * shard + i);
  }
  EXPECT_EQ(seen, expected);
}

TEST(Sources, AllHaveASchemaAndADescription) {
  for (const auto& [name, kind] : source_kinds().all()) EXPECT_FALSE(kind.doc.empty()) << name;
  for (const char* name : {"fashion_mnist", "mnist", "cifar10", "cifar100", "image_folder", "csv", "csv_text", "npy",
                           "text", "dictionary", "tfrecord", "webdataset", "safetensors", "hdf5", "synthetic"}) {
    EXPECT_TRUE(source_kinds().contains(name)) << name;
  }
}

}  // namespace
}  // namespace starling::data
