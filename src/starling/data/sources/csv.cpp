#include "starling/data/formats/csv.h"

#include <algorithm>

#include "starling/base/error.h"
#include "starling/data/loading/split.h"
#include "starling/data/raw/raw.h"
#include "starling/data/raw/table_reader.h"
#include "starling/data/records/csv_table.h"
#include "starling/data/records/field_decoder.h"

namespace starling::data {
namespace {

struct CsvSourceOptions : SplitOptions {
  std::vector<std::string> train{};
  std::vector<std::string> test{};
  double test_share = 0;
  std::string separator = ",";
  bool header = true;
  std::string label{};
  CsvSchema::Label label_kind = CsvSchema::Label::classes;
  std::vector<std::string> targets{};
  std::vector<std::string> features{};
  std::vector<std::string> categories{};
  std::vector<std::string> ignore{};
  std::vector<std::string> class_names{};
  CsvSchema::Missing missing = CsvSchema::Missing::refuse;
  bool standardise = false;
  bool standardise_targets = false;
  bool streamed = false;
  std::int64_t most_bytes = std::int64_t{4} << 30;
  static Settings settings() {
    using O = CsvSourceOptions;
    return with_splits(
        {required(setting("train", &O::train, "files to train with, plain or gzipped; * stands for any letters")),
         setting("test", &O::test, "files to test with"),
         setting("test_share", &O::test_share, "share of the training rows to test with", {.min = 0, .max = 0.9}),
         setting("separator", &O::separator, "between cells: one letter, or tab"),
         setting("header", &O::header, "the first row names the columns; else they are 0, 1, …"),
         setting("label", &O::label, "column to be predicted; empty: none"),
         choice("label_kind", &O::label_kind, {"none", "classes", "number"},
                "what the label is; a number makes it a regression"),
         setting("targets", &O::targets, "columns of numbers to be predicted together, instead of a label"),
         setting("features", &O::features, "columns of numbers; empty: all others"),
         setting("categories", &O::categories, "columns of words, each word a place of 0 or 1"),
         setting("ignore", &O::ignore, "columns left out"),
         setting("class_names", &O::class_names, "of the labels, in order; empty: those in the training file"),
         choice("missing", &O::missing, {"refuse", "zero", "nan", "mean", "drop"}, "what a missing number becomes"),
         setting("standardise", &O::standardise,
                 "numbers less the mean of their column, divided by its standard deviation, both of the training file"),
         setting("standardise_targets", &O::standardise_targets,
                 "let the network learn numbers to predict likewise; metrics and predictions stay in their own units"),
         setting("streamed", &O::streamed, "read rows as they are needed rather than all into memory"),
         setting("most_bytes", &O::most_bytes, "of features in memory", {.min = 1})});
  }
};

CsvOptions csv_options(const CsvSourceOptions& o) {
  check(o.separator.size() == 1 || o.separator == "tab", "[csv] expected a separator of one letter or tab, got '{}'",
        o.separator);
  return {.separator = o.separator == "tab" ? '\t' : o.separator[0], .header = o.header};
}

// Columns, words, means and classes as another file of the kind was read.
CsvSchema known_schema(const CsvSourceOptions& o, const Reading& as) {
  CsvSchema schema = *TableReader::from_json(as.raw).schema;
  schema.fixed = false;
  if (o.missing == CsvSchema::Missing::drop) schema.missing = o.missing;
  schema.class_names = as.class_names;
  schema.learned_classes = o.class_names.empty();
  return schema;
}

void set_label(CsvSchema& schema, const CsvSourceOptions& o) {
  schema.label = o.label;
  schema.label_kind = o.label.empty() ? CsvSchema::Label::none : o.label_kind;
  schema.targets = o.targets;
  check(o.targets.empty() || o.label.empty(),
        "[csv] expected a label or targets, got both: '{}' and {} (list the label among the targets)", o.label,
        fmt::join(o.targets, ", "));
  if (!o.targets.empty()) schema.label_kind = CsvSchema::Label::numbers;
  const bool numbers = schema.label_kind == CsvSchema::Label::number || schema.label_kind == CsvSchema::Label::numbers;
  check(
      !o.standardise_targets || numbers,
      "[csv] expected numbers to predict with standardise_targets, got {} (write label_kind: number, or leave it out)",
      o.label.empty() ? "none" : "classes");
}

std::shared_ptr<const CsvSchema> schema_of(const CsvSourceOptions& o, const std::vector<std::filesystem::path>& files,
                                           const Reading& as) {
  if (raw_kind(as.raw) == "table") {
    auto known = std::make_shared<CsvSchema>(known_schema(o, as));
    set_label(*known, o);
    known->learn(files.front(), csv_options(o));  // facts that the options do not give, such as classes without names
    return known;
  }
  auto schema = std::make_shared<CsvSchema>();
  set_label(*schema, o);
  schema->standardise = o.standardise;
  schema->standardise_targets = o.standardise_targets;
  schema->categories = o.categories;
  schema->missing = o.missing;
  schema->class_names = o.class_names;
  schema->numbers = o.features;
  if (o.features.empty()) {
    const auto named = [&](const std::vector<std::string>& list, const std::string& name) {
      return std::find(list.begin(), list.end(), name) != list.end();
    };
    const CsvReader reader = CsvReader::open(files.front(), csv_options(o));
    for (const auto& column : reader.columns()) {
      const bool feature = column != o.label && !named(o.categories, column) && !named(o.ignore, column);
      if (feature && !named(o.targets, column)) schema->numbers.push_back(column);
    }
  }
  // With several files, the first one's words, classes and means hold for all.
  schema->learn(files.front(), csv_options(o));
  check(schema->width() > 0,
        "[csv] {}: expected columns to learn from, got none (name some in features or "
        "categories)",
        files.front().string());
  return schema;
}

std::shared_ptr<const Dataset> table(const std::vector<std::filesystem::path>& files,
                                     const std::shared_ptr<const CsvSchema>& schema, const CsvSourceOptions& o) {
  check(files.size() == 1, "[csv] expected one file in memory, got {} (streamed: true reads several)", files.size());
  return std::make_shared<const TensorDataset>(
      read_csv_table(files.front(), schema, csv_options(o), static_cast<std::uint64_t>(o.most_bytes)));
}

RecordShards shards(std::vector<std::filesystem::path> files, const std::shared_ptr<const CsvSchema>& schema,
                    const CsvSourceOptions& o) {
  return {std::move(files),
          [options = csv_options(o)](const std::filesystem::path& file, std::uint64_t offset) {
            return open_csv_records(file, offset, options);
          },
          csv_decoder(schema)};
}

DataSplits make(const CsvSourceOptions& o, const Reading& as) {
  const auto files = expand_files(o.train);
  const auto schema = schema_of(o, files, as);
  DataSplits splits;
  if (schema->label_kind == CsvSchema::Label::classes) {
    splits.classes = std::ssize(schema->class_names);
    splits.class_names = schema->class_names;
  }
  if (schema->label_kind == CsvSchema::Label::number) splits.target_names = {o.label};
  if (schema->label_kind == CsvSchema::Label::numbers) splits.target_names = o.targets;
  splits.target_means = schema->target_means;
  splits.target_deviations = schema->target_deviations;
  splits.raw = TableReader{schema, csv_options(o)}.json();
  if (o.streamed) {
    check(o.test_share == 0 && o.valid_share == 0 && o.train_limit == 0 && o.test_limit == 0,
          "[csv] expected no shares and limits of a stream, got some: name files for each part");
    splits.train_shards = shards(files, schema, o);
    if (!o.test.empty()) splits.test_shards = shards(expand_files(o.test), schema, o);
    return splits;
  }
  splits.train = table(files, schema, o);
  if (!o.test.empty()) {
    splits.test = table(expand_files(o.test), schema, o);
  } else {
    take_test_share(splits, o.test_share, o.split_seed);
  }
  finish_splits(splits, o);
  return splits;
}

}  // namespace

void register_source_csv(SourceKinds& kinds);
void register_source_csv(SourceKinds& kinds) {
  kinds.add<CsvSourceOptions>("csv", "Rows of numbers and words with a label",
                              [](const CsvSourceOptions& o) { return [o](const Reading& as) { return make(o, as); }; });
}

}  // namespace starling::data
