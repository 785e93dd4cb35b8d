#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "starling/data/formats/byte_source.h"
#include "starling/data/record_reader.h"

namespace starling {

struct CsvOptions {
  char separator = ',';
  char quote = '"';
  bool header = true;  // the first row names the columns; else they are called "0", "1", …
  std::uint64_t most_row = std::uint64_t{16} << 20;       // bytes of one row
  std::uint64_t most_unpacked = std::uint64_t{64} << 30;  // of a gzipped file
};

// Rows of a CSV file as RFC 4180 has them, plain or gzipped: a cell in quotes may hold separators, line ends and
// doubled quotes; lines end with LF or CRLF; every row has as many cells as the first. Empty lines are passed over; a
// byte order mark is taken away. A quote inside a cell that does not begin with one is a letter like any other.
class CsvReader {
 public:
  CsvReader(ByteSource source, const CsvOptions& options);
  static CsvReader open(const std::filesystem::path& file, const CsvOptions& options = {});

  const std::vector<std::string>& columns() const { return columns_; }
  // The cells of the next row, or null at the end; valid until the next call.
  const std::vector<std::string_view>* next();

  std::uint64_t row_offset() const { return row_offset_; }  // where the row that next() gave begins
  // Where the row that next() will give begins (or an empty line before it).
  std::uint64_t next_offset() const { return first_pending_ ? row_offset_ : source_.offset() + pending_; }
  std::int64_t line() const { return line_; }  // of the row that next() gave, from 1; 0 after move_to
  const std::string& name() const { return source_.name(); }
  void move_to(std::uint64_t offset);  // forwards to where a row begins

  // "<file>:<line>", or "<file> at byte <offset>" where the line is not known.
  std::string where() const;

 private:
  bool read_row();
  std::size_t find_row_end(std::size_t from, bool& quoted, std::int64_t& lines);
  void split_plain(std::string_view row);
  void split_quoted(std::string_view row);

  ByteSource source_;
  CsvOptions options_;
  std::vector<std::string> columns_;
  std::vector<std::string_view> cells_;
  std::vector<char> text_;   // of the row's cells, with quotes taken away; views of it outlive a move
  std::size_t pending_ = 0;  // bytes of the row handed out, still to be consumed
  std::uint64_t row_offset_ = 0;
  std::int64_t line_ = 0;
  std::int64_t next_line_ = 1;
  bool lines_known_ = true;
  bool first_pending_ = false;  // without a header the first row was read to count the cells
};

// Rows as records, one part a cell.
std::unique_ptr<RecordReader> open_csv_records(const std::filesystem::path& file, std::uint64_t offset,
                                               const CsvOptions& options);

// A number as files have it: spaces around it, a leading '+', "nan" and "inf" are fine. False when it is not one.
bool parse_number(std::string_view text, double& value);
bool parse_number(std::string_view text, std::int64_t& value);

}  // namespace starling
