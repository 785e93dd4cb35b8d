#include "starling/train/saved_model/sequences.h"

#include "starling/base/error.h"
#include "starling/data/tokenizers/tokenizer.h"

namespace starling::train {
namespace {

constexpr std::int64_t kPadding = 0;
constexpr std::int64_t kEnd = 2;

}  // namespace

bool reads_and_writes_text(const ModelSignature& signature) {
  return signature.inputs.size() == 1 && signature.outputs.size() == 1 && !signature.tokenizer.is_null() &&
         !signature.target_tokenizer.is_null() && signature.outputs[0].dtype == DType::i64 &&
         signature.inputs[0].sample.rank() == 1 && signature.outputs[0].sample.rank() == 1;
}

std::vector<std::pair<std::string, std::string>> translate_texts(SavedModel& model,
                                                                 const std::vector<std::string>& texts) {
  const ModelSignature& signature = model.signature();
  check(reads_and_writes_text(signature), "[model] expected a model that reads and writes text, got another");
  const auto reader = data::parse_tokenizer(signature.tokenizer.dump(), "model.json");
  const auto writer = data::parse_tokenizer(signature.target_tokenizer.dump(), "model.json");
  const std::int64_t most = signature.inputs[0].sample[0];
  const std::int64_t written = signature.outputs[0].sample[0];
  const Tensor sources = zeros({static_cast<std::int64_t>(texts.size()), most}, DType::i64);
  for (std::size_t row = 0; row < texts.size(); ++row) {
    const auto ids = reader->encode(texts[row]);
    check(static_cast<std::int64_t>(ids.size()) <= most, "[model] expected a text of at most {} tokens, got {} in '{}'",
          most, ids.size(), texts[row]);
    std::copy(ids.begin(), ids.end(), sources.data<std::int64_t>() + static_cast<std::int64_t>(row) * most);
  }
  const Tensor answers = model.run(sources);
  std::vector<std::pair<std::string, std::string>> made;
  for (std::size_t row = 0; row < texts.size(); ++row) {
    const auto* from = answers.data<std::int64_t>() + static_cast<std::int64_t>(row) * written;
    std::vector<std::int64_t> ids;
    for (std::int64_t i = 0; i < written && from[i] != kEnd && from[i] != kPadding; ++i) ids.push_back(from[i]);
    made.emplace_back(texts[row], writer->decode(ids));
  }
  return made;
}

}  // namespace starling::train
