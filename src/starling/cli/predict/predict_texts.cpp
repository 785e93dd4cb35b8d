#include <fmt/format.h>

#include <filesystem>

#include "starling/cli/cli.h"
#include "starling/cli/predict/predict_input.h"
#include "starling/data/raw/text_reader.h"

namespace starling::cli {

PredictInput read_texts(const std::string& text_or_file, const ModelSignature& signature) {
  std::shared_ptr<const data::Tokenizer> tokenizer;
  if (!signature.tokenizer.is_null()) tokenizer = data::parse_tokenizer(signature.tokenizer.dump(), "model.json");
  const auto reader = data::TextReader::from_json(signature.raw, std::move(tokenizer));
  std::error_code ignored;  // a long text is no name of a file
  const bool file = std::filesystem::is_regular_file(text_or_file, ignored);
  const std::string extension = std::filesystem::path(text_or_file).extension().string();
  if (!file && (extension == ".csv" || extension == ".tsv" || extension == ".txt"))
    throw UsageError(
        fmt::format("[predict] expected a text or a file of texts, got {}, which is not there", text_or_file));
  std::vector<std::string> texts = file ? reader.read(text_or_file) : std::vector{text_or_file};
  const Tensor ids = reader.encode(texts);
  return {transformed(ids, signature, file ? text_or_file : "text"), std::move(texts)};
}

}  // namespace starling::cli
