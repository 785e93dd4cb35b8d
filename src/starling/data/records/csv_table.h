#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "starling/data/formats/csv.h"
#include "starling/data/records/record_reader.h"
#include "starling/tensor/tensor.h"

namespace starling::data {

// How CSV columns become a sample: numbers and one-hot categories in one feature vector, and a label or targets.
struct CsvSchema {
  enum class Label { none, classes, number, numbers };  // numbers: those of `targets`
  enum class Missing { refuse, zero, nan, mean, drop };

  std::vector<std::string> numbers{};     // names of the numeric columns
  std::vector<std::string> categories{};  // names of the categorical columns, one-hot encoded
  std::string label{};                    // name of the label column; empty: none
  std::vector<std::string> targets{};     // names of the columns to predict, all numbers
  Label label_kind = Label::none;
  Missing missing = Missing::refuse;  // how to treat an empty number or one of missing_words
  std::vector<std::string> missing_words{"", "NA", "N/A", "nan", "NaN", "null", "?"};
  bool fixed = false;        // of a saved model: errors give no advice on how to choose columns
  bool standardise = false;  // numeric columns become (x - mean) / standard deviation

  // Filled by learn(): the sorted words of each category, means and standard deviations of the numeric columns.
  std::vector<std::vector<std::string>> words{};
  std::vector<std::string> class_names{};  // may be preset; labels are then these names or their indices
  bool learned_classes = false;            // class names came from the file, so labels are names, never indices
  std::vector<double> means{};
  std::vector<double> deviations{};  // of constant columns 1
  // Targets are read as they are; these say how a network may learn them.
  bool standardise_targets = false;
  std::vector<double> target_means{};
  std::vector<double> target_deviations{};

  std::int64_t width() const;              // length of the feature vector
  std::vector<TensorType> fields() const;  // f32 [width], then i64 [], f32 [] or f32 [targets], if there are labels
  bool is_missing(std::string_view cell) const;

  // Reads a file once to fill in what is still unknown: words of categories, class names, means and deviations if they
  // are needed. Throws if a column does not exist, naming the nearest, and if the classes look like measured numbers.
  void learn(const std::filesystem::path& file, const CsvOptions& options);
};

// Decodes the rows of one CSV file into samples.
class CsvRow {
 public:
  CsvRow(std::shared_ptr<const CsvSchema> schema, const std::vector<std::string>& columns, const std::string& file);

  // Writes one sample; false if the row is to be dropped. `where` returns the row's location for error messages.
  template <class Cell, class Where>
  bool decode(const Cell& cell, const Where& where, float* features, void* label) const;

 private:
  std::shared_ptr<const CsvSchema> schema_;
  std::vector<std::size_t> numbers_, categories_, targets_;
  std::size_t label_ = 0;
};

// Orders class names in place: by number if all of them are numbers (2 before 10), else as they stand.
void sort_class_names(std::vector<std::string>& names);

// Places of the named columns. Throws naming every one that is not there, and the nearest where there is one.
std::vector<std::size_t> column_places(const std::vector<std::string>& columns, const std::vector<std::string>& names,
                                       const std::string& file);

// Reads all rows into memory; throws if the features need more than `most_bytes`.
std::vector<Tensor> read_csv_table(const std::filesystem::path& file, const std::shared_ptr<const CsvSchema>& schema,
                                   const CsvOptions& options, std::uint64_t most_bytes);

// Decoder for streamed rows.
std::shared_ptr<const RecordDecoder> csv_decoder(std::shared_ptr<const CsvSchema> schema);

}  // namespace starling::data
