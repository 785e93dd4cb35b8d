#include <algorithm>
#include <set>

#include "starling/base/error.h"
#include "starling/data/formats/csv.h"
#include "starling/data/loading/split.h"
#include "starling/data/raw/raw.h"
#include "starling/data/raw/text_reader.h"
#include "starling/data/records/csv_table.h"
#include "starling/data/records/field_decoder.h"
#include "starling/data/tokenizers/terms.h"

namespace starling::data {
namespace {

struct CsvTextOptions : SplitOptions {
  enum class Tokens { words, hashed, characters };

  std::vector<std::string> train{};
  std::vector<std::string> test{};
  double test_share = 0;
  std::string separator = ",";
  std::string text{};
  std::string label{};
  std::vector<std::string> class_names{};
  Tokens tokens = Tokens::words;
  std::int64_t vocabulary = 10'000;
  std::int64_t length = 64;
  bool lower = true;
  static Settings settings() {
    using O = CsvTextOptions;
    return with_splits(
        {required(setting("train", &O::train, "files to train with, plain or gzipped; * stands for any letters")),
         setting("test", &O::test, "files to test with"),
         setting("test_share", &O::test_share, "share of the training rows to test with", {.min = 0, .max = 0.9}),
         setting("separator", &O::separator, "between cells: one letter, or tab"),
         required(setting("text", &O::text, "column of the texts")),
         required(setting("label", &O::label, "column of the classes")),
         setting("class_names", &O::class_names, "of the labels, in order; empty: those in the training files"),
         choice("tokens", &O::tokens, {"words", "hashed", "characters"},
                "what a token is: a frequent word, any word by its hash, or a character"),
         setting("vocabulary", &O::vocabulary, "token ids at most", {.min = 3, .max = 1e6}),
         setting("length", &O::length, "tokens of a sample: longer texts are cut, shorter filled up",
                 {.min = 1, .max = 1e6}),
         setting("lower", &O::lower, "letters A to Z count as a to z")});
  }
};

struct Rows {
  std::vector<std::string> texts, labels, places;
};

CsvOptions csv_options(const CsvTextOptions& o) {
  check(o.separator.size() == 1 || o.separator == "tab",
        "[csv_text] expected a separator of one letter or tab, got '{}'", o.separator);
  return {.separator = o.separator == "tab" ? '\t' : o.separator[0]};
}

std::string without_spaces(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(" \t") + 1 - begin));
}

Rows read_rows(const std::vector<std::string>& patterns, const CsvTextOptions& o) {
  Rows rows;
  for (const auto& file : expand_files(patterns)) {
    CsvReader reader = CsvReader::open(file, csv_options(o));
    const auto places = column_places(reader.columns(), {o.text, o.label}, file.string());
    while (const auto* cells = reader.next()) {
      rows.texts.emplace_back((*cells)[places[0]]);
      rows.labels.push_back(without_spaces((*cells)[places[1]]));
      rows.places.push_back(reader.where());
      check(!rows.labels.back().empty(),
            "[csv_text] {}: expected a class in the column '{}', got nothing "
            "(give the row one, or remove it)",
            rows.places.back(), o.label);
    }
  }
  check(!rows.texts.empty(), "[csv_text] expected rows in {}, got none", fmt::join(patterns, ", "));
  return rows;
}

std::vector<std::string> names_of(const Rows& rows, const CsvTextOptions& o) {
  if (!o.class_names.empty()) return o.class_names;
  const std::set<std::string> seen(rows.labels.begin(), rows.labels.end());
  std::vector<std::string> names(seen.begin(), seen.end());
  sort_class_names(names);
  return names;
}

std::shared_ptr<const Tokenizer> tokenizer_of(const Rows& rows, const CsvTextOptions& o) {
  const TermOptions terms{.characters = o.tokens == CsvTextOptions::Tokens::characters, .lower = o.lower};
  if (o.tokens == CsvTextOptions::Tokens::hashed) return std::make_shared<const HashedTerms>(o.vocabulary, terms);
  return TermVocabulary::of_texts(rows.texts, terms, o.vocabulary);
}

std::shared_ptr<const Dataset> dataset(const Rows& rows, const TextReader& reader, const DataSplits& splits,
                                       const CsvTextOptions& o) {
  std::vector<std::int64_t> labels;
  for (std::size_t i = 0; i < rows.labels.size(); ++i) {
    const auto found = std::find(splits.class_names.begin(), splits.class_names.end(), rows.labels[i]);
    check(found != splits.class_names.end(),
          "[csv_text] {}: expected one of the classes in the column '{}', got '{}' "
          "(correct the row, or list all classes in class_names)",
          rows.places[i], o.label, rows.labels[i].substr(0, 60));
    labels.push_back(found - splits.class_names.begin());
  }
  return std::make_shared<const TensorDataset>(
      std::vector<Tensor>{reader.encode(rows.texts), from_host<std::int64_t>(labels, {std::ssize(labels)})});
}

DataSplits make(const CsvTextOptions& o, const Reading& as) {
  const Rows rows = read_rows(o.train, o);
  DataSplits splits;
  const bool known = raw_kind(as.raw) == "texts" && as.tokenizer != nullptr;
  splits.class_names = known && !as.class_names.empty() ? as.class_names : names_of(rows, o);
  splits.classes = std::ssize(splits.class_names);
  splits.tokenizer = known ? as.tokenizer : tokenizer_of(rows, o);
  splits.vocabulary = splits.tokenizer->size();
  const std::int64_t length = known ? TextReader::from_json(as.raw, as.tokenizer).length : o.length;
  const TextReader reader{o.text, length, csv_options(o), splits.tokenizer};
  splits.train = dataset(rows, reader, splits, o);
  check(o.test.empty() || o.test_share == 0,
        "[csv_text] expected test files or a test_share, got both (leave one "
        "out)");
  if (!o.test.empty()) splits.test = dataset(read_rows(o.test, o), reader, splits, o);
  take_test_share(splits, o.test_share, o.split_seed);
  finish_splits(splits, o);
  splits.raw = reader.json();
  return splits;
}

}  // namespace

void register_source_csv_text(SourceKinds& kinds);
void register_source_csv_text(SourceKinds& kinds) {
  kinds.add<CsvTextOptions>("csv_text", "Texts with a class each, both columns of a CSV file: token ids, 0 fills up",
                            [](const CsvTextOptions& o) { return [o](const Reading& as) { return make(o, as); }; });
}

}  // namespace starling::data
