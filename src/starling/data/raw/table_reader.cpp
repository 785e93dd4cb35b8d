#include "starling/data/raw/table_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "starling/base/error.h"
#include "starling/data/tokenizers/byte_text.h"

namespace starling::data {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 30;
constexpr std::size_t kMostColumns = 1 << 20;
constexpr std::array<const char*, 5> kMissing = {"refuse", "zero", "nan", "mean", "drop"};  // in the order of Missing

// Names and words may be in any encoding, JSON may not.
std::vector<std::string> texts(const std::vector<std::string>& list) {
  std::vector<std::string> made;
  for (const auto& one : list) made.push_back(text_of_bytes(one));
  return made;
}
std::vector<std::string> strings(const nlohmann::json& list) {
  std::vector<std::string> made;
  for (const auto& one : list) made.push_back(bytes_of_text(one.get<std::string>()));
  return made;
}

// Schema for a file without a header, where columns are named 0, 1, … in the order of training.
std::shared_ptr<const CsvSchema> by_place(const CsvSchema& schema) {
  auto made = std::make_shared<CsvSchema>(schema);
  for (std::size_t i = 0; i < made->numbers.size(); ++i) made->numbers[i] = fmt::to_string(i);
  return made;
}

// Looks at the cells of the first row, since values, unlike names, may come twice.
bool lacks_header(const std::filesystem::path& file, CsvOptions options, const CsvSchema& schema) {
  options.header = false;
  CsvReader reader = CsvReader::open(file, options);
  const auto* cells = reader.next();
  if (cells == nullptr) return false;
  const std::vector<std::string> columns(cells->begin(), cells->end());
  const auto is_number = [](const std::string& name) {
    double ignored = 0;
    return parse_number(name, ignored);
  };
  const auto is_wanted = [&](const std::string& name) {
    return std::find(schema.numbers.begin(), schema.numbers.end(), name) != schema.numbers.end();
  };
  return schema.categories.empty() && columns.size() == schema.numbers.size() &&
         std::all_of(columns.begin(), columns.end(), is_number) &&
         std::none_of(columns.begin(), columns.end(), is_wanted);
}

void check_sizes(const CsvSchema& schema) {
  const std::size_t numbers = schema.numbers.size();
  const bool filled = schema.missing != CsvSchema::Missing::mean && !schema.standardise;
  check(numbers <= kMostColumns && schema.categories.size() == schema.words.size() &&
            (filled || schema.means.size() == numbers) &&
            (!schema.standardise || schema.deviations.size() == numbers) &&
            schema.target_means.size() == schema.target_deviations.size(),
        "[model] expected words, means and deviations for every column of a table, got other numbers of them");
  for (const auto* deviations : {&schema.deviations, &schema.target_deviations}) {
    for (const double deviation : *deviations)
      check(std::isfinite(deviation) && deviation > 0, "[model] expected deviations above 0, got {}", deviation);
  }
  for (const auto& words : schema.words)
    check(std::is_sorted(words.begin(), words.end()), "[model] expected the words of a column in order");
}

}  // namespace

nlohmann::json csv_json(const CsvOptions& options) {
  return {{"separator", std::string(1, options.separator)},
          {"quote", std::string(1, options.quote)},
          {"header", options.header}};
}

CsvOptions csv_from_json(const nlohmann::json& json) {
  CsvOptions made;
  const auto separator = json.at("separator").get<std::string>(), quote = json.at("quote").get<std::string>();
  check(separator.size() == 1 && quote.size() == 1, "[model] expected a separator and a quote of one letter each");
  made.separator = separator[0];
  made.quote = quote[0];
  made.header = json.at("header").get<bool>();
  return made;
}

Tensor TableReader::read(const std::filesystem::path& file) const {
  CsvOptions how = options;
  std::shared_ptr<const CsvSchema> what = schema;
  if (how.header && lacks_header(file, how, *schema)) {
    how.header = false;
    what = by_place(*schema);
  }
  return read_csv_table(file, what, how, kMostBytes).front();
}

nlohmann::json TableReader::json() const {
  nlohmann::json made = csv_json(options);
  made.update({{"kind", "table"},
               {"numbers", texts(schema->numbers)},
               {"categories", texts(schema->categories)},
               {"words", nlohmann::json::array()},
               {"missing", kMissing.at(static_cast<std::size_t>(schema->missing))},
               {"missing_words", texts(schema->missing_words)},
               {"means", schema->means},
               {"deviations", schema->deviations},
               {"standardise", schema->standardise}});
  for (const auto& words : schema->words) made["words"].push_back(texts(words));
  if (!schema->target_means.empty())
    made.update({{"target_means", schema->target_means}, {"target_deviations", schema->target_deviations}});
  return made;
}

TableReader TableReader::from_json(const nlohmann::json& json) {
  TableReader made;
  auto schema = std::make_shared<CsvSchema>();
  try {
    made.options = csv_from_json(json);
    schema->numbers = strings(json.at("numbers"));
    schema->categories = strings(json.at("categories"));
    for (const auto& words : json.at("words")) schema->words.push_back(strings(words));
    schema->missing_words = strings(json.at("missing_words"));
    json.at("means").get_to(schema->means);
    json.at("deviations").get_to(schema->deviations);
    schema->standardise = json.at("standardise").get<bool>();
    if (json.contains("target_means")) {
      json.at("target_means").get_to(schema->target_means);
      json.at("target_deviations").get_to(schema->target_deviations);
      schema->standardise_targets = true;
    }
    const auto name = json.at("missing").get<std::string>();
    const auto* const found = std::find(kMissing.begin(), kMissing.end(), name);
    check(found != kMissing.end(), "[model] expected one of ({}) for missing numbers, got '{}'",
          fmt::join(kMissing, ", "), name);
    schema->missing = static_cast<CsvSchema::Missing>(found - kMissing.begin());
  } catch (const nlohmann::json::exception& error) {
    fail("[model] expected a description of a table, got a bad one: {}", error.what());
  }
  // A row that was dropped would leave predictions without their place: it is told instead.
  if (schema->missing == CsvSchema::Missing::drop) schema->missing = CsvSchema::Missing::refuse;
  schema->fixed = true;
  check_sizes(*schema);
  made.schema = std::move(schema);
  return made;
}

}  // namespace starling::data
