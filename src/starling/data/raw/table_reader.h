#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "starling/data/formats/csv.h"
#include "starling/data/records/csv_table.h"

namespace starling::data {

// Turns the rows of a CSV file into the features f32 [width] that a network was trained with: columns are found by
// name, in any order; gaps, words and scales are those of the training data.
struct TableReader {
  std::shared_ptr<const CsvSchema> schema{};  // without labels
  CsvOptions options{};

  // Features [rows, width] of a whole file. A file without the wanted names whose first row is all numbers is taken for
  // one without a header, its columns in the order of training. Throws naming the file and all missing columns.
  Tensor read(const std::filesystem::path& file) const;

  nlohmann::json json() const;  // kind "table"
  static TableReader from_json(const nlohmann::json& json);
};

// Cells as in a CSV file: quote, separator and header in a description.
nlohmann::json csv_json(const CsvOptions& options);
CsvOptions csv_from_json(const nlohmann::json& json);

}  // namespace starling::data
