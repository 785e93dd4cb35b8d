#include "starling/data/formats/csv.h"

#include <gtest/gtest.h>

#include "../byte_helpers.h"
#include "starling/base/bytes.h"
#include "testing/temporary_folder.h"

namespace starling::data {
namespace {

using testing::error_of;
using Row = std::vector<std::string>;

CsvReader reader(const std::string& text, const CsvOptions& options = {}) {
  return {ByteSource::of(as_bytes(text), "f.csv", {.who = "csv"}), options};
}

std::vector<Row> rows(CsvReader csv) {
  std::vector<Row> all;
  while (const auto* cells = csv.next()) all.emplace_back(cells->begin(), cells->end());
  return all;
}
std::vector<Row> rows(const std::string& text, const CsvOptions& options = {}) { return rows(reader(text, options)); }

TEST(Csv, ReadsQuotedCellsLineEndsAndEmptyCells) {
  const std::string text = "a,b,c\r\n1,\"two, \"\"2\"\"\",3\n\"line\nend\",,\"\"\n";
  EXPECT_EQ(rows(text), (std::vector<Row>{{"1", "two, \"2\"", "3"}, {"line\nend", "", ""}}));
  EXPECT_EQ(reader(text).columns(), (Row{"a", "b", "c"}));
}

TEST(Csv, TakesOtherSeparatorsNoHeaderAndNoLastLineEnd) {
  const CsvOptions options{.separator = ';', .header = false};
  EXPECT_EQ(rows("1;2\n3;4", options), (std::vector<Row>{{"1", "2"}, {"3", "4"}}));
  EXPECT_EQ(reader("1;2\n3;4", options).columns(), (Row{"0", "1"}));
  EXPECT_EQ(rows("\"x\";\"y\"\n", options), (std::vector<Row>{{"x", "y"}}));
}

TEST(Csv, PassesOverEmptyLinesAndAByteOrderMark) {
  EXPECT_EQ(rows("\xEF\xBB\xBF"
                 "a,b\n\n1,2\n\r\n3,4\n\n"),
            (std::vector<Row>{{"1", "2"}, {"3", "4"}}));
}

TEST(Csv, TakesAQuoteInsideACellAsALetter) {
  EXPECT_EQ(rows("a,b\n5\" pipe,x\n6\"\",y\n"), (std::vector<Row>{{"5\" pipe", "x"}, {"6\"\"", "y"}}));
}

TEST(Csv, SaysTheLineOfWhatIsWrong) {
  EXPECT_EQ(error_of([] { rows("a,b\n1,2\n\n\"x\ny\",1\n3\n"); }),
            "[csv] f.csv:6: expected 2 cells as in the first row, got 1 (a cell with a separator in it needs quotes; "
            "`separator` says which letter it is)");
  EXPECT_NE(error_of([] { rows("a,b\n\"1\"x,2\n"); }).find("f.csv:2: expected ',' or the end of the line"),
            std::string::npos);
  EXPECT_NE(error_of([] { rows("a,b\n1,\"2\n3,4\n"); }).find("to be closed"), std::string::npos);
  EXPECT_NE(error_of([] { rows(""); }).find("empty file"), std::string::npos);
  EXPECT_NE(error_of([] { rows("a,a\n"); }).find("'a' twice"), std::string::npos);
  EXPECT_NE(error_of([] { rows("a\n", {.separator = '"'}); }), "");
}

TEST(Csv, StopsAtTheLimitOfARow) {
  const std::string long_row = "a\n" + std::string(5000, 'x') + "\n";
  EXPECT_EQ(rows(long_row).size(), 1U);
  EXPECT_NE(error_of([&] { rows("a\n\"" + std::string(5000, 'x'), {.most_row = 1000}); }).find("at most 1000"),
            std::string::npos);
}

// Rows longer than the buffer and rows across its edge, from a plain and a gzipped file.
TEST(Csv, ReadsTheSameFromAFileOfAnySize) {
  const testing::TemporaryFolder folder;
  std::string text = "n,word\n";
  std::vector<Row> expected;
  for (int i = 0; i < 3000; ++i) {
    const std::string word(static_cast<std::size_t>(i % 500), static_cast<char>('a' + i % 26));
    const bool quoted = i % 3 == 0;
    text += std::to_string(i) + "," + (quoted ? "\"" + word + "\n\"" : word) + "\n";
    expected.push_back({std::to_string(i), quoted ? word + "\n" : word});
  }
  text += "3000," + std::string(700'000, 'z') + "\n";
  expected.push_back({"3000", std::string(700'000, 'z')});
  testing::write_text(folder / "a.csv", text);
  testing::write_text(folder / "a.csv.gz", testing::gzipped(text));
  EXPECT_EQ(rows(CsvReader::open(folder / "a.csv")), expected);
  EXPECT_EQ(rows(CsvReader::open(folder / "a.csv.gz")), expected);
}

TEST(Csv, RecordsGoOnFromEveryOffset) {
  const testing::TemporaryFolder folder;
  for (const bool header : {true, false}) {
    const CsvOptions options{.header = header};
    testing::write_text(folder / "a.csv", "a,b\n1,\"x\ny\"\n\n2,z\n3,\"\"\n");
    std::vector<std::uint64_t> offsets;
    std::vector<std::string> firsts;
    {
      const auto records = open_csv_records(folder / "a.csv", 0, options);
      std::uint64_t before = records->offset();
      while (const Record* record = records->next()) {
        EXPECT_LE(before, record->offset);
        before = records->offset();
        offsets.push_back(record->offset);
        firsts.emplace_back(as_text(record->parts[0].bytes));
        EXPECT_EQ(record->parts[1].name, header ? "b" : "1");
      }
    }
    EXPECT_EQ(firsts.size(), header ? 3U : 4U);
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      const auto records = open_csv_records(folder / "a.csv", offsets[i], options);
      for (std::size_t j = i; j < offsets.size(); ++j) {
        const Record* record = records->next();
        ASSERT_NE(record, nullptr);
        EXPECT_EQ(record->offset, offsets[j]);
        EXPECT_EQ(as_text(record->parts[0].bytes), firsts[j]);
      }
      EXPECT_EQ(records->next(), nullptr);
    }
  }
}

TEST(Csv, ReadsNumbersWholeOrNotAtAll) {
  double number = 0;
  EXPECT_TRUE(parse_number(" +1.5e3 ", number));
  EXPECT_EQ(number, 1500);
  EXPECT_TRUE(parse_number("-inf", number));
  for (const char* text : {"", " ", "1.5x", "1,5", "+-1", "0x10"}) EXPECT_FALSE(parse_number(text, number)) << text;
  std::int64_t whole = 0;
  EXPECT_FALSE(parse_number("1.5", whole));
  EXPECT_FALSE(parse_number("9223372036854775808", whole));
}

}  // namespace
}  // namespace starling::data
