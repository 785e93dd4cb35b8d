#include "starling/data/formats/csv.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "starling/base/bytes.h"
#include "starling/base/error.h"
#include "starling/base/text.h"

namespace starling::data {
namespace {

constexpr std::size_t kMostCells = 1'000'000;

std::string_view without_line_end(std::string_view row) {
  if (row.ends_with('\n')) row.remove_suffix(1);
  if (row.ends_with('\r')) row.remove_suffix(1);
  return row;
}

std::string_view digits_of(std::string_view text) {
  text = trimmed(text, " \t");
  if (text.size() > 1 && text.front() == '+' && text[1] != '-') text.remove_prefix(1);
  return text;
}

template <class T>
bool parse(std::string_view text, T& value) {
  text = digits_of(text);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

bool parse_number(std::string_view text, double& value) { return parse(text, value); }
bool parse_number(std::string_view text, std::int64_t& value) { return parse(text, value); }

CsvReader CsvReader::open(const std::filesystem::path& file, const CsvOptions& options) {
  return {ByteSource::open(file, {.who = "csv", .most_unpacked = options.most_unpacked}), options};
}

CsvReader::CsvReader(ByteSource source, const CsvOptions& options) : source_(std::move(source)), options_(options) {
  const auto usable = [](char c) { return c != '\n' && c != '\r' && c != '\0'; };
  check(usable(options.separator) && usable(options.quote) && options.separator != options.quote,
        "[csv] expected a separator and a quote that differ and are no line ends, got '{}' and '{}'", options.separator,
        options.quote);
  if (as_text(source_.peek(3)).starts_with("\xEF\xBB\xBF")) source_.consume(3);
  check(read_row(), "[csv] {}: expected a row, got an empty file", source_.name());
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    std::string name = options.header ? std::string(cells_[i]) : std::to_string(i);
    columns_.push_back(std::move(name));
  }
  if (options.header) {
    auto sorted = columns_;
    std::sort(sorted.begin(), sorted.end());
    const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
    check(twice == sorted.end(),
          "[csv] {}:1: expected columns of different names, got '{}' twice (rename "
          "one; header: false if the first row holds values)",
          source_.name(), twice == sorted.end() ? "" : *twice);
  }
  first_pending_ = !options.header;
}

std::string CsvReader::where() const {
  return line_ > 0 ? fmt::format("{}:{}", source_.name(), line_)
                   : fmt::format("{} at byte {}", source_.name(), row_offset_);
}

void CsvReader::move_to(std::uint64_t offset) {
  source_.consume(std::exchange(pending_, 0));
  first_pending_ = first_pending_ && offset <= row_offset_;
  if (first_pending_) return;
  if (offset > source_.offset()) {
    source_.skip(offset - source_.offset(), "the beginning of a row");
    lines_known_ = false;
  }
}

const std::vector<std::string_view>* CsvReader::next() {
  if (first_pending_) {
    first_pending_ = false;
    return &cells_;
  }
  if (!read_row()) return nullptr;
  if (cells_.size() != columns_.size()) {
    fail(
        "[csv] {}: expected {} cells as in the first row, got {} (a cell with a separator in it needs "
        "quotes; `separator` says which letter it is)",
        where(), columns_.size(), cells_.size());
  }
  return &cells_;
}

bool CsvReader::read_row() {
  while (true) {
    source_.consume(std::exchange(pending_, 0));
    row_offset_ = source_.offset();
    bool quoted = false;
    std::int64_t lines = 0;
    const std::size_t size = find_row_end(0, quoted, lines);
    if (size == 0) return false;
    line_ = lines_known_ ? next_line_ : 0;
    next_line_ += lines;
    const std::string_view row = without_line_end(as_text(source_.peek(size)).substr(0, size));
    pending_ = size;
    if (row.empty()) continue;
    if (quoted) {
      split_quoted(row);
    } else {
      split_plain(row);
    }
    // Cells are views of the source and stay valid: nothing is consumed before the next row is read.
    return true;
  }
}

// Size of the row including its line end; 0 at the end of the file. A line end inside quotes belongs to a cell.
std::size_t CsvReader::find_row_end(std::size_t from, bool& quoted, std::int64_t& lines) {
  std::string_view seen = as_text(source_.peek(1));
  bool inside = false, cell_begins = true, just_closed = false;
  std::size_t at = from;
  lines = 0;
  while (true) {
    if (!inside && !quoted) {  // fast path: without quotes, the row ends at the next line end
      const std::size_t stop = std::min(seen.find('\n', at), seen.size());
      const std::size_t quote = seen.substr(0, stop).find(options_.quote);
      if (quote == std::string_view::npos) {
        if (stop < seen.size()) {
          ++lines;
          return stop + 1;
        }
        at = seen.size();
      } else {
        quoted = true;
        at = 0;
      }
    }
    for (; quoted && at < seen.size(); ++at) {
      const char c = seen[at];
      if (c == '\n') ++lines;
      if (inside) {
        inside = c != options_.quote;
        just_closed = !inside;  // a doubled quote reopens the cell at once
        continue;
      }
      if (c == '\n') return at + 1;
      inside = c == options_.quote && (cell_begins || just_closed);
      just_closed = false;
      cell_begins = c == options_.separator;
    }
    if (seen.size() > options_.most_row) {
      fail("[csv] {}: expected a row of at most {} bytes from byte {}, got more{}", source_.name(), options_.most_row,
           row_offset_, inside ? " (a quote that is not closed?)" : "");
    }
    const std::size_t before = seen.size();
    seen = as_text(source_.peek(before + 1));
    if (seen.size() > before) continue;
    if (inside) {
      fail(
          "[csv] {}: expected the quote of a cell in the row at byte {} to be closed, got the end of the file (a "
          "quote within a quoted cell is written twice)",
          source_.name(), row_offset_);
    }
    ++lines;
    return before;
  }
}

void CsvReader::split_plain(std::string_view row) {
  cells_.clear();
  while (true) {
    const auto* found = static_cast<const char*>(std::memchr(row.data(), options_.separator, row.size()));
    if (found == nullptr) break;
    const auto size = static_cast<std::size_t>(found - row.data());
    cells_.push_back(row.substr(0, size));
    row.remove_prefix(size + 1);
    if (cells_.size() > kMostCells) fail("[csv] {}: expected at most {} cells in a row, got more", where(), kMostCells);
  }
  cells_.push_back(row);
}

void CsvReader::split_quoted(std::string_view row) {
  cells_.clear();
  text_.clear();
  text_.reserve(row.size());  // cells are views of text_: it must not reallocate
  const auto append = [this](std::string_view part) { text_.insert(text_.end(), part.begin(), part.end()); };
  std::size_t at = 0;
  while (true) {
    const std::size_t begin = text_.size();
    if (at < row.size() && row[at] == options_.quote) {
      ++at;
      while (true) {
        const std::size_t quote = row.find(options_.quote, at);
        if (quote == std::string_view::npos) fail("[csv] {}: expected the quote of a cell to be closed", where());
        append(row.substr(at, quote - at));
        at = quote + 1;
        if (at >= row.size() || row[at] != options_.quote) break;
        text_.push_back(options_.quote);
        ++at;
      }
      if (at < row.size() && row[at] != options_.separator) {
        fail("[csv] {}: expected '{}' or the end of the line after a closing quote, got '{}'", where(),
             options_.separator, row[at]);
      }
    } else {
      const std::size_t end = std::min(row.find(options_.separator, at), row.size());
      append(row.substr(at, end - at));
      at = end;
    }
    cells_.emplace_back(text_.data() + begin, text_.size() - begin);
    if (cells_.size() > kMostCells) fail("[csv] {}: expected at most {} cells in a row, got more", where(), kMostCells);
    if (at >= row.size()) return;
    ++at;  // the separator
  }
}

namespace {

class CsvRecordReader final : public RecordReader {
 public:
  CsvRecordReader(CsvReader reader, std::uint64_t offset) : reader_(std::move(reader)) {
    for (const auto& column : reader_.columns()) record_.parts.push_back({column, {}});
    if (offset > 0) reader_.move_to(offset);
  }

  const Record* next() override {
    const auto* cells = reader_.next();
    if (cells == nullptr) return nullptr;
    record_.offset = reader_.row_offset();
    for (std::size_t i = 0; i < cells->size(); ++i) {
      record_.parts[i].bytes = as_bytes((*cells)[i]);
    }
    return &record_;
  }

  std::uint64_t offset() const override { return reader_.next_offset(); }

 private:
  CsvReader reader_;
  Record record_;
};

}  // namespace

std::unique_ptr<RecordReader> open_csv_records(const std::filesystem::path& file, std::uint64_t offset,
                                               const CsvOptions& options) {
  return std::make_unique<CsvRecordReader>(CsvReader::open(file, options), offset);
}

}  // namespace starling::data
