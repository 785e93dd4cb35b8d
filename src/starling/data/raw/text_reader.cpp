#include "starling/data/raw/text_reader.h"

#include <algorithm>

#include "starling/base/error.h"
#include "starling/data/formats/text.h"
#include "starling/data/raw/table_reader.h"
#include "starling/data/tokenizers/byte_text.h"

namespace starling::data {
namespace {

constexpr std::int64_t kMostLength = 1'000'000;
constexpr std::uint64_t kMostFile = std::uint64_t{1} << 30;

std::vector<std::string> column_of(const std::filesystem::path& file, const TextReader& reader) {
  CsvReader rows = CsvReader::open(file, reader.options);
  const std::size_t place = column_places(rows.columns(), {reader.column}, file.string())[0];
  std::vector<std::string> texts;
  while (const auto* cells = rows.next()) texts.emplace_back((*cells)[place]);
  return texts;
}

std::vector<std::string> lines_of(const std::filesystem::path& file) {
  const std::string all = read_text_file(file, kMostFile);
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = std::min(all.find('\n', at), all.size());
    std::string line = all.substr(at, end - at);
    if (line.ends_with('\r')) line.pop_back();
    texts.push_back(std::move(line));
    at = end + 1;
  }
  return texts;
}

}  // namespace

Tensor TextReader::encode(const std::vector<std::string>& texts) const {
  Tensor ids = zeros({std::ssize(texts), length}, DType::i64);
  std::vector<std::int64_t> one;
  for (std::size_t row = 0; row < texts.size(); ++row) {
    one.clear();
    tokenizer->encode(texts[row], one);
    one.resize(std::min(one.size(), static_cast<std::size_t>(length)));
    std::copy(one.begin(), one.end(), ids.data<std::int64_t>() + static_cast<std::int64_t>(row) * length);
  }
  return ids;
}

std::vector<std::string> TextReader::read(const std::filesystem::path& file) const {
  const std::string name = file.string();
  const bool table = name.ends_with(".csv") || name.ends_with(".csv.gz") || name.ends_with(".tsv");
  auto texts = table ? column_of(file, *this) : lines_of(file);
  check(!texts.empty(), "[texts] {}: expected at least one text, got none", name);
  return texts;
}

nlohmann::json TextReader::json() const {
  nlohmann::json made = csv_json(options);
  made.update({{"kind", "texts"}, {"column", text_of_bytes(column)}, {"length", length}});
  return made;
}

TextReader TextReader::from_json(const nlohmann::json& json, std::shared_ptr<const Tokenizer> tokenizer) {
  TextReader made;
  try {
    made.options = csv_from_json(json);
    made.column = bytes_of_text(json.at("column").get<std::string>());
    made.length = json.at("length").get<std::int64_t>();
  } catch (const nlohmann::json::exception& error) {
    fail("[model] expected a description of texts, got a bad one: {}", error.what());
  }
  check(made.length >= 1 && made.length <= kMostLength, "[model] expected texts of 1 to {} tokens, got {}", kMostLength,
        made.length);
  check(tokenizer != nullptr, "[model] expected a tokenizer with a description of texts, got none");
  made.tokenizer = std::move(tokenizer);
  return made;
}

}  // namespace starling::data
