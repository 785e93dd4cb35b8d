#include "starling/data/records/csv_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <optional>
#include <set>

#include "starling/base/bytes.h"
#include "starling/base/config/nearest.h"
#include "starling/base/error.h"
#include "starling/base/text.h"

namespace starling::data {
namespace {

constexpr std::size_t kMostWords = 100'000;  // per category

std::size_t word_index(const std::vector<std::string>& sorted, std::string_view word) {
  const auto found = std::lower_bound(sorted.begin(), sorted.end(), word);
  return found != sorted.end() && *found == word ? static_cast<std::size_t>(found - sorted.begin()) : sorted.size();
}

// Mean and spread of a column, one value after another (Welford 1962), so that large offsets lose no digits.
struct Moments {
  double count = 0, mean = 0, squares = 0;
  void add(double value) {
    const double from_mean = value - mean;
    mean += from_mean / ++count;
    squares += from_mean * (value - mean);
  }
  double deviation() const {
    const double found = count > 0 ? std::sqrt(squares / count) : 0;
    return found > 0 ? found : 1;
  }
};

// Refuses classes that are measured numbers: many values, not all of them whole.
void check_classes(const std::vector<std::string>& names, const std::string& column, const std::string& file) {
  constexpr std::size_t kFew = 20;
  if (names.size() <= kFew) return;
  const std::string* broken = nullptr;
  for (const auto& name : names) {
    double value = 0;
    if (!parse_number(name, value)) return;
    if (value != std::floor(value)) broken = &name;
  }
  if (broken == nullptr) return;
  fail(
      "[csv] {}: expected classes in the column '{}', got {} different numbers such as {} (to predict numbers, write "
      "label_kind: number)",
      file, column, names.size(), *broken);
}

// Separator of a header that was taken for a single column, as a job writes it; empty: none found.
std::string separator_in(const std::string& header) {
  for (const auto& [letter, name] : {std::pair(';', "';'"), {'\t', "tab"}, {'|', "'|'"}}) {
    if (header.find(letter) != std::string::npos) return name;
  }
  return "";
}

// "0,754": a number with a comma where others write a point.
bool has_decimal_comma(std::string_view text) {
  std::string point(text);
  std::replace(point.begin(), point.end(), ',', '.');
  double ignored = 0;
  return std::count(text.begin(), text.end(), ',') == 1 && parse_number(point, ignored);
}

// Advice about a cell that is no number.
const char* advice_for(std::string_view cell, bool has_target) {
  if (has_decimal_comma(cell)) return " (numbers have a point: replace the decimal commas)";
  return has_target ? " (list a column of words in categories, a useless one in ignore)"
                    : " (if it is what is to be learned, write label: with its name; list a column of words in "
                      "categories, a useless one in ignore)";
}

}  // namespace

void sort_class_names(std::vector<std::string>& names) {
  double ignored = 0;
  const bool numbers = std::all_of(names.begin(), names.end(), [&](const auto& w) { return parse_number(w, ignored); });
  if (!numbers) return;
  std::stable_sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    double x = 0, y = 0;
    parse_number(a, x);
    parse_number(b, y);
    return x < y;
  });
}

std::vector<std::size_t> column_places(const std::vector<std::string>& columns, const std::vector<std::string>& names,
                                       const std::string& file) {
  std::vector<std::size_t> places;
  std::string missing, near;
  std::size_t count = 0;
  for (const auto& name : names) {
    const auto found = std::find(columns.begin(), columns.end(), name);
    places.push_back(static_cast<std::size_t>(found - columns.begin()));
    if (found != columns.end()) continue;
    missing += fmt::format("{}'{}'", count++ == 0 ? "" : ", ", name);
    if (const std::string like = nearest(name, columns); !like.empty() && near.empty()) near = like;
  }
  if (count == 0) return places;
  constexpr std::size_t kShown = 20;
  const std::size_t shown = std::min(columns.size(), kShown);
  const std::string separator = columns.size() == 1 ? separator_in(columns.front()) : "";
  fail("[csv] {}: expected {} {}, got {}: {}{}{}", file, count == 1 ? "a column" : "the columns", missing,
       columns.size() == 1 ? "another one" : fmt::format("{} others", columns.size()),
       fmt::join(columns.begin(), columns.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
       shown < columns.size() ? ", …" : "",
       !separator.empty() ? fmt::format(" (write separator: {})", separator)
       : near.empty()     ? ""
                          : " (did you mean '" + near + "'?)");
}

std::int64_t CsvSchema::width() const {
  std::size_t width = numbers.size();
  for (const auto& list : words) width += list.size();
  return static_cast<std::int64_t>(width);
}

std::vector<TensorType> CsvSchema::fields() const {
  std::vector<TensorType> types = {{DType::f32, {width()}}};
  if (label_kind == Label::classes) types.push_back({DType::i64, {}});
  if (label_kind == Label::number) types.push_back({DType::f32, {}});
  if (label_kind == Label::numbers) types.push_back({DType::f32, {std::ssize(targets)}});
  return types;
}

bool CsvSchema::is_missing(std::string_view cell) const {
  return std::find(missing_words.begin(), missing_words.end(), cell) != missing_words.end();
}

void CsvSchema::learn(const std::filesystem::path& file, const CsvOptions& options) {
  const bool learns_classes = label_kind == Label::classes && class_names.empty();
  const bool learns_means = (missing == Missing::mean || standardise) && means.empty();
  const bool learns_words = words.empty() && !categories.empty();
  const bool learns_targets = standardise_targets && target_means.empty();
  if (!learns_classes && !learns_means && !learns_words && !learns_targets) return;
  auto reader = CsvReader::open(file, options);
  const auto number_columns = column_places(reader.columns(), numbers, file.string());
  const auto category_columns = column_places(reader.columns(), categories, file.string());
  const std::size_t label_column = label.empty() ? 0 : column_places(reader.columns(), {label}, file.string())[0];
  std::vector<std::set<std::string, std::less<>>> seen(categories.size());
  std::set<std::string, std::less<>> classes;
  std::vector<Moments> moments(numbers.size());
  const auto target_columns =
      column_places(reader.columns(), label_kind == Label::number ? std::vector{label} : targets, file.string());
  std::vector<Moments> target_moments(target_columns.size());
  const auto add = [&](std::string_view cell, Moments& to) {
    double value = 0;
    if (!is_missing(cell) && parse_number(cell, value) && std::isfinite(value)) to.add(value);
  };
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
    for (std::size_t i = 0; learns_means && i < number_columns.size(); ++i)
      add((*cells)[number_columns[i]], moments[i]);
    for (std::size_t i = 0; learns_targets && i < target_columns.size(); ++i)
      add(trimmed((*cells)[target_columns[i]]), target_moments[i]);
  }
  if (learns_words) {
    for (const auto& set : seen) words.emplace_back(set.begin(), set.end());
  }
  if (learns_classes) {
    class_names.assign(classes.begin(), classes.end());
    sort_class_names(class_names);
    check_classes(class_names, label, file.string());
    learned_classes = true;
  }
  for (std::size_t i = 0; learns_means && i < moments.size(); ++i) {
    means.push_back(moments[i].mean);
    deviations.push_back(moments[i].deviation());
  }
  for (std::size_t i = 0; learns_targets && i < target_moments.size(); ++i) {
    target_means.push_back(target_moments[i].mean);
    target_deviations.push_back(target_moments[i].deviation());
  }
}

CsvRow::CsvRow(std::shared_ptr<const CsvSchema> schema, const std::vector<std::string>& columns,
               const std::string& file)
    : schema_(std::move(schema)) {
  std::vector<std::string> wanted = schema_->numbers;  // all at once, so that one error names all that are missing
  wanted.insert(wanted.end(), schema_->categories.begin(), schema_->categories.end());
  wanted.insert(wanted.end(), schema_->targets.begin(), schema_->targets.end());
  if (!schema_->label.empty()) wanted.push_back(schema_->label);
  const auto places = column_places(columns, wanted, file);
  auto at = places.begin();
  const auto take = [&](std::size_t count) {
    at += static_cast<std::ptrdiff_t>(count);
    return std::vector<std::size_t>(at - static_cast<std::ptrdiff_t>(count), at);
  };
  numbers_ = take(schema_->numbers.size());
  categories_ = take(schema_->categories.size());
  targets_ = take(schema_->targets.size());
  if (!schema_->label.empty()) label_ = *at;
}

template <class Cell, class Where>
bool CsvRow::decode(const Cell& cell, const Where& where, float* features, void* label) const {
  using Missing = CsvSchema::Missing;
  const CsvSchema& schema = *schema_;
  const auto refuse = [&](const char* expected, const std::string& column, std::string_view given,
                          const char* advice = "") {
    fail("[csv] {}: expected {} in the column '{}', got '{}'{}", where(), expected, column, given.substr(0, 60),
         schema.fixed ? "" : advice);
  };
  for (std::size_t i = 0; i < numbers_.size(); ++i) {
    const std::string_view text = cell(numbers_[i]);
    double value = 0;
    if (!parse_number(text, value) || !std::isfinite(value)) {
      if (!schema.is_missing(text))
        refuse("a number", schema.numbers[i], text, advice_for(text, schema.label_kind != CsvSchema::Label::none));
      switch (schema.missing) {
        case Missing::refuse: refuse("a number", schema.numbers[i], text, " (missing: mean fills gaps)"); break;
        case Missing::drop: return false;
        case Missing::zero: value = 0; break;
        case Missing::nan: value = std::numeric_limits<double>::quiet_NaN(); break;
        case Missing::mean: value = schema.means[i]; break;
      }
    }
    if (schema.standardise) value = (value - schema.means[i]) / schema.deviations[i];
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
  const auto number = [&](std::string_view text, const std::string& column) {
    double value = 0;
    if (!parse_number(text, value) || !std::isfinite(static_cast<float>(value))) refuse("a number", column, text);
    return static_cast<float>(value);
  };
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    const std::string_view text = trimmed(cell(targets_[i]));
    if (schema.is_missing(text) && schema.missing == Missing::drop) return false;
    static_cast<float*>(label)[i] = number(text, schema.targets[i]);
  }
  if (schema.label_kind == CsvSchema::Label::numbers) return true;
  const std::string_view text = trimmed(cell(label_));
  if (schema.is_missing(text) && schema.missing == Missing::drop) return false;
  if (schema.label_kind == CsvSchema::Label::number) {
    *static_cast<float*>(label) = number(text, schema.label);
    return true;
  }
  const auto& names = schema.class_names;
  const auto found = std::find_if(names.begin(), names.end(), [&](const auto& name) { return trimmed(name) == text; });
  std::int64_t index = found - names.begin();
  const auto is_index = [&] { return parse_number(text, index) && index >= 0 && index < std::ssize(names); };
  if (found == names.end() && (schema.learned_classes || !is_index())) {
    refuse("one of the classes", schema.label, text);
  }
  *static_cast<std::int64_t*>(label) = index;
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
  std::vector<float> one(width), numbers(std::max<std::size_t>(schema->targets.size(), 1));
  std::int64_t rows = 0;
  while (const auto* cells = reader.next()) {
    std::int64_t label = 0;
    const bool kept = row.decode([&](std::size_t i) { return (*cells)[i]; }, [&] { return reader.where(); }, one.data(),
                                 classes ? static_cast<void*>(&label) : numbers.data());
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
      number_labels.insert(number_labels.end(), numbers.begin(), numbers.end());
    }
  }
  check(rows > 0, "[csv] {}: expected rows, got none", file.string());
  std::vector<Tensor> columns = {from_host<float>(features, {rows, schema->width()})};
  if (classes) columns.push_back(from_host<std::int64_t>(class_labels, {rows}));
  if (schema->label_kind == CsvSchema::Label::number) columns.push_back(from_host<float>(number_labels, {rows}));
  if (schema->label_kind == CsvSchema::Label::numbers)
    columns.push_back(from_host<float>(number_labels, {rows, std::ssize(schema->targets)}));
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
