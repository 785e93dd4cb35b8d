// Descriptions of raw input that saved models keep: they come back as they were, and bad ones are refused.
#include "starling/data/raw/raw.h"

#include <gtest/gtest.h>

#include "byte_helpers.h"
#include "starling/data/raw/picture_reader.h"
#include "starling/data/raw/table_reader.h"
#include "starling/data/raw/text_reader.h"
#include "starling/data/tokenizers/terms.h"
#include "testing/temporary_folder.h"

namespace starling::data {
namespace {

using nlohmann::json;
using testing::error_of;
using testing::TemporaryFolder;
using testing::write_text;

TableReader table() {
  auto schema = std::make_shared<CsvSchema>();
  schema->numbers = {"a", "b\xff"};  // a name that is no UTF-8
  schema->categories = {"c"};
  schema->words = {{"x", "y"}};
  schema->missing = CsvSchema::Missing::mean;
  schema->standardise = true;
  schema->means = {2, 3};
  schema->deviations = {1, 2};
  return {schema, {.separator = ';'}};
}

TEST(RawInput, ComesBackFromItsDescription) {
  const PictureReader pictures{1, 20, 30, Fit::pad};
  EXPECT_EQ(PictureReader::from_json(pictures.json()).json(), pictures.json());
  EXPECT_EQ(raw_kind(pictures.json()), "pictures");
  const json kept = json::parse(table().json().dump());
  EXPECT_EQ(TableReader::from_json(kept).json(), kept);
  const TextReader texts{"t", 5, {}, std::make_shared<const HashedTerms>(9, TermOptions{})};
  EXPECT_EQ(TextReader::from_json(texts.json(), texts.tokenizer).json(), texts.json());
  EXPECT_EQ(raw_kind(json()), "");
}

TEST(RawInput, OfTablesIsFoundByNameOrByPlace) {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& text, const TableReader& reader) {
    write_text(folder / "rows.csv", text);
    return reader.read(folder / "rows.csv").to_vector();
  };
  const TableReader kept = TableReader::from_json(table().json());
  EXPECT_EQ(read("more;c;b\xff;a\n0;y;7;\n", kept), (std::vector<double>{0, 2, 0, 1}));
  json numbers = table().json();
  numbers["categories"] = numbers["words"] = json::array();
  const TableReader plain = TableReader::from_json(numbers);
  EXPECT_EQ(read("3;5\n2;1\n", plain), (std::vector<double>{1, 1, 0, -1})) << "rows of numbers without a header";
  EXPECT_EQ(read("4;4\n2;1\n", plain), (std::vector<double>{2, 0.5, 0, -1})) << "a value may come twice, a name not";
  EXPECT_NE(error_of([&] { read("3;5;6\n", plain); }).find("expected the columns 'a'"), std::string::npos);
}

TEST(RawInput, OfTextsKeepsThePlaceOfEveryLine) {
  const TemporaryFolder folder;
  const TextReader texts{"t", 5, {}, std::make_shared<const HashedTerms>(9, TermOptions{})};
  write_text(folder / "lines.txt", "one\r\n\ntwo\n");
  EXPECT_EQ(texts.read(folder / "lines.txt"), (std::vector<std::string>{"one", "", "two"}));
}

TEST(RawInput, ThatIsDescribedBadlyIsRefused) {
  const auto table_error = [](const std::string& key, const json& value) {
    json bad = table().json();
    bad[key] = value;
    return error_of([&] { TableReader::from_json(bad); });
  };
  for (const auto& error :
       {table_error("means", json::array({1})), table_error("deviations", json::array({1, 0})),
        table_error("words", json::array()), table_error("words", json::array({json::array({"y", "x"})})),
        table_error("missing", "guess"), table_error("numbers", 3), table_error("separator", "::")})
    EXPECT_TRUE(error.starts_with("[model] ")) << error;
  const auto picture_error = [](const std::string& key, const json& value) {
    json bad = PictureReader{}.json();
    bad[key] = value;
    return error_of([&] { PictureReader::from_json(bad); });
  };
  for (const auto& error : {picture_error("height", 0), picture_error("width", 1 << 20), picture_error("channels", 2),
                            picture_error("fit", "bend"), picture_error("fit", 1)})
    EXPECT_TRUE(error.starts_with("[model] ")) << error;
  json long_text = TextReader{"t", 5, {}, nullptr}.json();
  EXPECT_NE(error_of([&] { TextReader::from_json(long_text, nullptr); }).find("a tokenizer"), std::string::npos);
  long_text["length"] = 1e12;
  EXPECT_NE(error_of([&] { TextReader::from_json(long_text, nullptr); }).find("texts of 1 to"), std::string::npos);
}

}  // namespace
}  // namespace starling::data
