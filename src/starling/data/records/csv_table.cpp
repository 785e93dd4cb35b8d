#include "starling/data/records/csv_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <optional>
#include <set>

#include "starling/base/bytes.h"
#include "starling/base/error.h"
#include "starling/base/nearest.h"

namespace starling::data {
namespace {

constexpr std::size_t kMostWords = 100'000;  // per category

std::size_t column_of(const std::vector<std::string>& columns, const std::string& name, const std::string& file) {
  const auto found = std::find(columns.begin(), columns.end(), name);
  if (found == columns.end()) {
    const std::string near = nearest(name, columns);
    fail("[csv] {}: expected a column '{}', got {} others{}", file, name, columns.size(),
         near.empty() ? "" : " (did you mean '" + near + "'?)");
  }
  return static_cast<std::size_t>(found - columns.begin());
}

std::size_t word_index(const std::vector<std::string>& sorted, std::string_view word) {
  const auto found = std::lower_bound(sorted.begin(), sorted.end(), word);
  return found != sorted.end() && *found == word ? static_cast<std::size_t>(found - sorted.begin()) : sorted.size();
}

// Words that are all numbers are put in the order of the numbers: 2 before 10.
void sort_words(std::vector<std::string>& words) {
  double ignored = 0;
  const bool numbers = std::all_of(words.begin(), words.end(), [&](const auto& w) { return parse_number(w, ignored); });
  if (!numbers) return;
  std::stable_sort(words.begin(), words.end(), [](const std::string& a, const std::string& b) {
    double x = 0, y = 0;
    parse_number(a, x);
    parse_number(b, y);
    return x < y;
  });
}

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

}  // namespace

std::int64_t CsvSchema::width() const {
  std::size_t width = numbers.size();
  for (const auto& list : words) width += list.size();
  return static_cast<std::int64_t>(width);
}

std::vector<TensorType> CsvSchema::fields() const {
  std::vector<TensorType> types = {{DType::f32, {width()}}};
  if (label_kind != Label::none) types.push_back({label_kind == Label::classes ? DType::i64 : DType::f32, {}});
  return types;
}

bool CsvSchema::is_missing(std::string_view cell) const {
  return std::find(missing_words.begin(), missing_words.end(), cell) != missing_words.end();
}

void CsvSchema::learn(const std::filesystem::path& file, const CsvOptions& options) {
  const bool learns_classes = label_kind == Label::classes && class_names.empty();
  const bool learns_means = missing == Missing::mean && means.empty();
  const bool learns_words = words.empty() && !categories.empty();
  if (!learns_classes && !learns_means && !learns_words) return;
  auto reader = CsvReader::open(file, options);
  std::vector<std::size_t> number_columns, category_columns;
  for (const auto& name : numbers) number_columns.push_back(column_of(reader.columns(), name, file.string()));
  for (const auto& name : categories) category_columns.push_back(column_of(reader.columns(), name, file.string()));
  const std::size_t label_column = label.empty() ? 0 : column_of(reader.columns(), label, file.string());
  std::vector<std::set<std::string, std::less<>>> seen(categories.size());
  std::set<std::string, std::less<>> classes;
  std::vector<double> sums(numbers.size());
  std::vector<std::int64_t> counts(numbers.size());
  const auto note = [&](std::set<std::string, std::less<>>& set, std::string_view word, const std::string& column) {
    if (set.contains(word)) return;
    set.emplace(word);
    if (set.size() > kMostWords) {
      fail("[csv] {}: expected at most {} different words in the column '{}', got more", reader.where(), kMostWords,
           column);
    }
  };
  while (const auto* cells = reader.next()) {
    for (std::size_t i = 0; learns_words && i < category_columns.size(); ++i) {
      note(seen[i], (*cells)[category_columns[i]], categories[i]);
    }
    const std::string_view named = learns_classes ? trimmed((*cells)[label_column]) : std::string_view{};
    if (learns_classes && !is_missing(named)) note(classes, named, label);
    for (std::size_t i = 0; learns_means && i < number_columns.size(); ++i) {
      double value = 0;
      if (is_missing((*cells)[number_columns[i]]) || !parse_number((*cells)[number_columns[i]], value)) continue;
      sums[i] += value;
      ++counts[i];
    }
  }
  if (learns_words) {
    for (const auto& set : seen) words.emplace_back(set.begin(), set.end());
  }
  if (learns_classes) {
    class_names.assign(classes.begin(), classes.end());
    sort_words(class_names);
    learned_classes = true;
  }
  for (std::size_t i = 0; learns_means && i < sums.size(); ++i) {
    means.push_back(counts[i] > 0 ? sums[i] / static_cast<double>(counts[i]) : 0);
  }
}

CsvRow::CsvRow(std::shared_ptr<const CsvSchema> schema, const std::vector<std::string>& columns,
               const std::string& file)
    : schema_(std::move(schema)) {
  for (const auto& name : schema_->numbers) numbers_.push_back(column_of(columns, name, file));
  for (const auto& name : schema_->categories) categories_.push_back(column_of(columns, name, file));
  if (!schema_->label.empty()) label_ = column_of(columns, schema_->label, file);
}

template <class Cell, class Where>
bool CsvRow::decode(const Cell& cell, const Where& where, float* features, void* label) const {
  using Missing = CsvSchema::Missing;
  const CsvSchema& schema = *schema_;
  const auto refuse = [&](const char* expected, const std::string& column, std::string_view given) {
    fail("[csv] {}: expected {} in the column '{}', got '{}'", where(), expected, column, given.substr(0, 60));
  };
  for (std::size_t i = 0; i < numbers_.size(); ++i) {
    const std::string_view text = cell(numbers_[i]);
    double value = 0;
    if (!parse_number(text, value) || !std::isfinite(value)) {
      if (!schema.is_missing(text)) refuse("a number", schema.numbers[i], text);
      switch (schema.missing) {
        case Missing::refuse: refuse("a number (missing ones can be set)", schema.numbers[i], text); break;
        case Missing::drop: return false;
        case Missing::zero: value = 0; break;
        case Missing::nan: value = std::numeric_limits<double>::quiet_NaN(); break;
        case Missing::mean: value = schema.means[i]; break;
      }
    }
    if (std::abs(value) > std::numeric_limits<float>::max()) refuse("a number that f32 holds", schema.numbers[i], text);
    *features++ = static_cast<float>(value);
  }
  for (std::size_t i = 0; i < categories_.size(); ++i) {
    const auto& words = schema.words[i];
    std::fill_n(features, words.size(), 0.0F);
    const std::size_t index = word_index(words, cell(categories_[i]));
    if (index < words.size()) features[index] = 1;  // unknown words are all zeros
    features += words.size();
  }
  if (schema.label_kind == CsvSchema::Label::none) return true;
  const std::string_view text = trimmed(cell(label_));
  if (schema.is_missing(text) && schema.missing == Missing::drop) return false;
  if (schema.label_kind == CsvSchema::Label::number) {
    double value = 0;
    if (!parse_number(text, value) || !std::isfinite(static_cast<float>(value))) {
      refuse("a number", schema.label, text);
    }
    *static_cast<float*>(label) = static_cast<float>(value);
    return true;
  }
  const auto& names = schema.class_names;
  const auto found = std::find_if(names.begin(), names.end(), [&](const auto& name) { return trimmed(name) == text; });
  std::int64_t number = found - names.begin();
  const auto is_index = [&] { return parse_number(text, number) && number >= 0 && number < std::ssize(names); };
  if (found == names.end() && (schema.learned_classes || !is_index())) {
    refuse("one of the classes", schema.label, text);
  }
  *static_cast<std::int64_t*>(label) = number;
  return true;
}

std::vector<Tensor> read_csv_table(const std::filesystem::path& file, const std::shared_ptr<const CsvSchema>& schema,
                                   const CsvOptions& options, std::uint64_t most_bytes) {
  auto reader = CsvReader::open(file, options);
  const CsvRow row(schema, reader.columns(), file.string());
  const auto width = static_cast<std::size_t>(schema->width());
  const bool classes = schema->label_kind == CsvSchema::Label::classes;
  std::vector<float> features, number_labels;
  std::vector<std::int64_t> class_labels;
  std::vector<float> one(width);
  std::int64_t rows = 0;
  while (const auto* cells = reader.next()) {
    std::int64_t label = 0;
    float number = 0;
    const bool kept = row.decode([&](std::size_t i) { return (*cells)[i]; }, [&] { return reader.where(); }, one.data(),
                                 classes ? static_cast<void*>(&label) : &number);
    if (!kept) continue;
    ++rows;
    if ((features.size() + width) * sizeof(float) > most_bytes) {
      fail("[csv] {}: expected at most {} bytes of features in memory, got more (stream it)", reader.where(),
           most_bytes);
    }
    features.insert(features.end(), one.begin(), one.end());
    if (classes) {
      class_labels.push_back(label);
    } else {
      number_labels.push_back(number);
    }
  }
  check(rows > 0, "[csv] {}: expected rows, got none", file.string());
  std::vector<Tensor> columns = {from_host<float>(features, {rows, schema->width()})};
  if (classes) columns.push_back(from_host<std::int64_t>(class_labels, {rows}));
  if (schema->label_kind == CsvSchema::Label::number) columns.push_back(from_host<float>(number_labels, {rows}));
  return columns;
}

namespace {

class CsvDecoder final : public RecordDecoder {
 public:
  explicit CsvDecoder(std::shared_ptr<const CsvSchema> schema) : schema_(std::move(schema)) {
    check(schema_->missing != CsvSchema::Missing::drop,
          "[csv] expected missing numbers of a stream to be refused or set, got drop");
  }
  std::vector<TensorType> fields() const override { return schema_->fields(); }

  void decode(const Record& record, const std::string& shard, std::span<const Tensor> out) const override {
    std::call_once(once_, [&] {
      for (const auto& part : record.parts) columns_.push_back(part.name);
      row_.emplace(schema_, columns_, shard);
    });
    const bool same = std::equal(record.parts.begin(), record.parts.end(), columns_.begin(), columns_.end(),
                                 [](const RecordPart& part, const std::string& name) { return part.name == name; });
    if (!same) fail("[csv] {}: expected the columns of the first file in the same order, got others", shard);
    row_->decode([&](std::size_t i) { return as_text(record.parts[i].bytes); },
                 [&] { return fmt::format("{} at byte {}", shard, record.offset); }, out[0].data<float>(),
                 out.size() > 1 ? out[1].raw() : nullptr);
  }

 private:
  // Column indices, found at the first record.
  mutable std::once_flag once_;
  mutable std::vector<std::string> columns_;
  mutable std::optional<CsvRow> row_;
  std::shared_ptr<const CsvSchema> schema_;
};

}  // namespace

std::shared_ptr<const RecordDecoder> csv_decoder(std::shared_ptr<const CsvSchema> schema) {
  return std::make_shared<const CsvDecoder>(std::move(schema));
}

}  // namespace starling::data
