#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "starling/data/formats/csv.h"
#include "starling/data/record_reader.h"
#include "starling/tensor/tensor.h"

namespace starling {

// What becomes of the columns of a CSV file: numbers and categories side by side in one vector, a label beside it.
struct CsvSchema {
  enum class Label { none, classes, number };
  enum class Missing { refuse, zero, nan, mean, drop };

  std::vector<std::string> numbers{};     // columns
  std::vector<std::string> categories{};  // columns, each with one place for every word of its own
  std::string label{};                    // column; empty: none
  Label label_kind = Label::none;
  Missing missing = Missing::refuse;  // what an empty number, or one of missing_words, becomes
  std::vector<std::string> missing_words{"", "NA", "N/A", "nan", "NaN", "null", "?"};

  // Filled by learn(): words in order, and means of the columns of numbers.
  std::vector<std::vector<std::string>> words{};
  std::vector<std::string> class_names{};  // may be given before; labels are then among them, or their numbers
  bool learned_classes = false;            // from the file: a label is then one of them, never the number of one
  std::vector<double> means{};

  std::int64_t width() const;              // of the vector
  std::vector<TensorType> fields() const;  // of a sample: f32 [width], then i64 [] or f32 [] when there is a label
  bool is_missing(std::string_view cell) const;

  // Goes through a file once for what is not known yet: words of categories, names of classes, means where missing
  // numbers become them. The columns must be there; throws naming the nearest.
  void learn(const std::filesystem::path& file, const CsvOptions& options);
};

// Turns rows into samples.
class CsvRow {
 public:
  CsvRow(std::shared_ptr<const CsvSchema> schema, const std::vector<std::string>& columns, const std::string& file);

  // Writes a row; false: it is to be left out. `where` is called for the place in messages.
  template <class Cell, class Where>
  bool decode(const Cell& cell, const Where& where, float* features, void* label) const;

 private:
  std::shared_ptr<const CsvSchema> schema_;
  std::vector<std::size_t> numbers_, categories_;
  std::size_t label_ = 0;
};

// All rows in memory.
std::vector<Tensor> read_csv_table(const std::filesystem::path& file, std::shared_ptr<const CsvSchema> schema,
                                   const CsvOptions& options, std::uint64_t most_bytes);

// Rows as they stream by.
std::shared_ptr<const RecordDecoder> csv_decoder(std::shared_ptr<const CsvSchema> schema);

}  // namespace starling
