#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "starling/data/formats/csv.h"
#include "starling/data/tokenizers/tokenizer.h"
#include "starling/tensor/tensor.h"

namespace starling::data {

// Turns texts into token ids i64 [length]: longer texts are cut at their end, shorter ones filled up with id 0.
struct TextReader {
  std::string column{};  // of the texts in CSV files
  std::int64_t length = 64;
  CsvOptions options{};
  std::shared_ptr<const Tokenizer> tokenizer{};

  Tensor encode(const std::vector<std::string>& texts) const;  // i64 [texts, length]

  // Texts of a file: the column of a CSV file, or the lines of any other one. An empty line is a text, too, so
  // that results have the place of their line.
  std::vector<std::string> read(const std::filesystem::path& file) const;

  nlohmann::json json() const;  // kind "texts"; the tokenizer is kept beside it
  static TextReader from_json(const nlohmann::json& json, std::shared_ptr<const Tokenizer> tokenizer);
};

}  // namespace starling::data
