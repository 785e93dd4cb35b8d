#include "starling/data/formats/text.h"

#include <algorithm>

#include "starling/base/error.h"
#include "starling/data/datasets/window_dataset.h"
#include "starling/data/records/field_decoder.h"
#include "starling/data/source.h"
#include "starling/data/tokenizers/bpe.h"
#include "starling/data/tokenizers/tokenizer.h"

namespace starling::data {
namespace {

struct TextOptions {
  enum class Tokens { characters, bytes, bpe, words };

  std::vector<std::string> files{};
  Tokens tokens = Tokens::characters;
  std::int64_t vocabulary = 4096;
  std::filesystem::path vocabulary_file{};
  std::int64_t window = 128;
  std::int64_t stride = 0;
  double valid_share = 0;
  double test_share = 0.1;
  std::int64_t train_limit = 0;
  std::int64_t test_limit = 0;
  std::int64_t most_bytes = std::int64_t{1} << 30;
  static Settings settings() {
    return {
        required(setting("files", &TextOptions::files, "text files, plain or gzipped, joined in order; * matches")),
        choice("tokens", &TextOptions::tokens, {"characters", "bytes", "bpe", "words"}, "what a token is"),
        setting("vocabulary", &TextOptions::vocabulary, "tokens of bpe, or words kept at most", {.min = 2, .max = 1e6}),
        setting("vocabulary_file", &TextOptions::vocabulary_file,
                "vocabulary as JSON: read when it is there, else made and written"),
        setting("window", &TextOptions::window, "tokens of a sample", {.min = 1, .max = 1e6}),
        setting("stride", &TextOptions::stride, "tokens from one training sample to the next; 0: the window",
                {.min = 0}),
        setting("valid_share", &TextOptions::valid_share,
                "share of the tokens to validate with, after those to train with", {.min = 0, .max = 0.9}),
        setting("test_share", &TextOptions::test_share, "share of the tokens to test with, at the end",
                {.min = 0, .max = 0.9}),
        setting("train_limit", &TextOptions::train_limit, "tokens to train with at most; 0: all", {.min = 0}),
        setting("test_limit", &TextOptions::test_limit, "tokens to test with at most; 0: all", {.min = 0}),
        setting("most_bytes", &TextOptions::most_bytes, "refuse larger texts", {.min = 1})};
  }
};

std::shared_ptr<const Tokenizer> make_tokenizer(const TextOptions& o, std::string_view text, std::string_view train) {
  if (o.tokens == TextOptions::Tokens::characters) return CharacterTokenizer::of_text(text);
  if (o.tokens == TextOptions::Tokens::words) return WordTokenizer::of_text(train, {.most = o.vocabulary});
  const std::int64_t size = o.tokens == TextOptions::Tokens::bytes ? 256 : o.vocabulary;
  return std::make_shared<const BpeTokenizer>(train_bpe(train, size));
}

// Loads the vocabulary file; throws if it has another kind of tokens than the job asks for.
std::shared_ptr<const Tokenizer> kept_tokenizer(const TextOptions& o) {
  using Tokens = TextOptions::Tokens;
  auto kept = load_tokenizer(o.vocabulary_file);
  const bool bytes = o.tokens == Tokens::bytes;  // stored as a BPE without merges
  const std::string asked = o.tokens == Tokens::characters ? "characters" : o.tokens == Tokens::words ? "words" : "bpe";
  check(kept->kind() == asked && (!bytes || kept->size() == 256),
        "[text] {}: expected a vocabulary of {}, got one of {} with {} tokens (remove the file to make another)",
        o.vocabulary_file.string(), bytes ? "bytes" : asked, kept->kind(), kept->size());
  return kept;
}

std::shared_ptr<const Tokenizer> tokenizer_of(const TextOptions& o, std::string_view text, std::string_view train) {
  if (o.vocabulary_file.empty()) return make_tokenizer(o, text, train);
  if (std::filesystem::exists(o.vocabulary_file)) return kept_tokenizer(o);
  auto made = make_tokenizer(o, text, train);
  save_tokenizer(*made, o.vocabulary_file);
  return made;
}

DataSplits make(const TextOptions& o, const Reading& as) {
  check(o.valid_share + o.test_share < 1,
        "[text] expected shares that leave something to train with, got {} and {} "
        "(lower valid_share or test_share)",
        o.valid_share, o.test_share);
  std::string text;
  for (const auto& file : expand_files(o.files)) {
    text += read_text_file(file, static_cast<std::uint64_t>(o.most_bytes));
    check(std::ssize(text) <= o.most_bytes,
          "[text] expected at most {} bytes in all files, got more (raise "
          "most_bytes, or name fewer)",
          o.most_bytes);
  }
  const double train_share = 1 - o.valid_share - o.test_share;
  const auto train_bytes = static_cast<std::size_t>(static_cast<double>(text.size()) * train_share);
  DataSplits splits;
  splits.tokenizer = as.tokenizer ? as.tokenizer : tokenizer_of(o, text, std::string_view(text).substr(0, train_bytes));
  splits.vocabulary = splits.tokenizer->size();
  const auto wide = splits.tokenizer->encode(text);
  auto ids = std::make_shared<const std::vector<std::int32_t>>(wide.begin(), wide.end());
  const auto count = static_cast<std::int64_t>(ids->size());
  const auto train_end = static_cast<std::int64_t>(static_cast<double>(count) * train_share);
  const auto valid_end = train_end + static_cast<std::int64_t>(static_cast<double>(count) * o.valid_share);
  const auto part = [&](std::int64_t begin, std::int64_t end, std::int64_t limit, std::int64_t stride) {
    if (limit > 0) end = std::min(end, begin + limit);
    return std::make_shared<const WindowDataset>(ids, begin, end, o.window, stride);
  };
  splits.train = part(0, train_end, o.train_limit, o.stride > 0 ? o.stride : o.window);
  if (o.valid_share > 0) splits.valid = part(train_end, valid_end, 0, o.window);
  if (o.test_share > 0) splits.test = part(valid_end, count, o.test_limit, o.window);
  return splits;
}

}  // namespace

void register_source_text(SourceKinds& kinds);
void register_source_text(SourceKinds& kinds) {
  kinds.add<TextOptions>("text", "Windows of a text for language models: ids, and the id after each",
                         [](const TextOptions& o) { return [o](const Reading& as) { return make(o, as); }; });
}

}  // namespace starling::data
