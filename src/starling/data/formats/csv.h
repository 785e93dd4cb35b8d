#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "starling/data/formats/byte_source.h"
#include "starling/data/records/record_reader.h"

namespace starling::data {

struct CsvOptions {
  char separator = ',';
  char quote = '"';
  bool header = true;  // the first row names the columns; else columns are named "0", "1", …
  std::uint64_t most_row = std::uint64_t{16} << 20;       // bytes of one row
  std::uint64_t most_unpacked = std::uint64_t{64} << 30;  // limit of a gzipped file's contents
};

// Reads a CSV file (RFC 4180), plain or gzipped: quoted cells may hold separators, line ends and doubled quotes; lines
// end with LF or CRLF; every row has as many cells as the first. Empty lines and a byte order mark are skipped. A quote
// inside an unquoted cell is an ordinary character.
class CsvReader {
 public:
  CsvReader(ByteSource source, const CsvOptions& options);
  static CsvReader open(const std::filesystem::path& file, const CsvOptions& options = {});

  const std::vector<std::string>& columns() const { return columns_; }
  // The cells of the next row, or null at the end; valid until the next call.
  const std::vector<std::string_view>* next();

  std::uint64_t row_offset() const { return row_offset_; }  // start of the last row
  // Start of the next row (or of an empty line before it).
  std::uint64_t next_offset() const { return first_pending_ ? row_offset_ : source_.offset() + pending_; }
  std::int64_t line() const { return line_; }  // line of the last row, from 1; 0 after move_to
  const std::string& name() const { return source_.name(); }
  void move_to(std::uint64_t offset);  // moves forward to `offset`, where a row must begin

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
  std::vector<char> text_;   // text of the row's cells, unquoted; a vector of char, whose views survive a move
  std::size_t pending_ = 0;  // bytes of the last row, consumed by the next call
  std::uint64_t row_offset_ = 0;
  std::int64_t line_ = 0;
  std::int64_t next_line_ = 1;
  bool lines_known_ = true;
  bool first_pending_ = false;  // no header: the first row was read to count the cells and is still to be returned
};

// Reader of rows as records, with one part per cell.
std::unique_ptr<RecordReader> open_csv_records(const std::filesystem::path& file, std::uint64_t offset,
                                               const CsvOptions& options);

// Parses a number; surrounding spaces, a leading '+', "nan" and "inf" are allowed. False if it is not a number.
bool parse_number(std::string_view text, double& value);
bool parse_number(std::string_view text, std::int64_t& value);

}  // namespace starling::data
