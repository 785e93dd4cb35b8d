#include "starling/data/tokenizers/tokenizer.h"

#include "starling/base/error.h"
#include "starling/base/file/file.h"
#include "starling/data/tokenizers/bpe.h"
#include "starling/data/tokenizers/byte_text.h"
#include "starling/data/tokenizers/sequence_vocabulary.h"
#include "starling/data/tokenizers/terms.h"

namespace starling::data {
namespace {

constexpr std::size_t kMostFile = 256 << 20;
constexpr int kMostDepth = 4;

std::shared_ptr<const Tokenizer> from_json(const nlohmann::json& json) {
  const std::string kind = json.at("kind").get<std::string>();
  if (kind == "characters") {
    std::vector<std::string> characters;
    for (const auto& item : json.at("characters")) characters.push_back(bytes_of_text(item.get<std::string>()));
    return std::make_shared<const CharacterTokenizer>(std::move(characters), json.value("unknown", std::int64_t{-1}));
  }
  if (kind == "words") {
    std::vector<std::string> words;
    for (const auto& item : json.at("words")) words.push_back(bytes_of_text(item.get<std::string>()));
    return std::make_shared<const WordTokenizer>(std::move(words));
  }
  if (kind == "bpe") {
    std::vector<BpeMerge> merges;
    for (const auto& item : json.at("merges")) {
      check(item.is_array() && item.size() == 2, "expected merges of two ids");
      merges.push_back({item[0].get<std::int32_t>(), item[1].get<std::int32_t>()});
    }
    return std::make_shared<const BpeTokenizer>(std::move(merges));
  }
  if (kind == "sequence") {
    std::vector<std::string> symbols;
    for (const auto& item : json.at("symbols")) symbols.push_back(bytes_of_text(item.get<std::string>()));
    return std::make_shared<const SequenceVocabulary>(std::move(symbols), json.at("separator").get<std::string>());
  }
  if (kind == "terms" || kind == "hashed_terms") {
    const TermOptions options{.characters = json.at("characters").get<bool>(), .lower = json.at("lower").get<bool>()};
    if (kind == "hashed_terms")
      return std::make_shared<const HashedTerms>(json.at("size").get<std::int64_t>(), options);
    std::vector<std::string> terms;
    for (const auto& item : json.at("terms")) terms.push_back(bytes_of_text(item.get<std::string>()));
    return std::make_shared<const TermVocabulary>(std::move(terms), options);
  }
  fail("expected one of (bpe, characters, hashed_terms, sequence, terms, words) as kind, got '{}'", kind);
}

}  // namespace

void Tokenizer::check_id(std::int64_t id) const {
  if (id < 0 || id >= size()) fail("[tokenizer] expected ids below {}, got {}", size(), id);
}

std::string Tokenizer::decode(std::span<const std::int64_t> ids) const {
  std::string text;
  for (auto id : ids) text += token(id);
  return text;
}

void save_tokenizer(const Tokenizer& tokenizer, const std::filesystem::path& path) {
  write_file_atomically(path, tokenizer.json().dump(1) + "\n").value();
}

std::shared_ptr<const Tokenizer> load_tokenizer(const std::filesystem::path& path) {
  return parse_tokenizer(read_file(path, kMostFile).value(), path.string());
}

std::shared_ptr<const Tokenizer> parse_tokenizer(std::string_view json, const std::string& name) {
  const auto shallow = [](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    if (depth > kMostDepth) fail("expected at most {} levels", kMostDepth);
    return true;
  };
  try {
    return from_json(nlohmann::json::parse(json, shallow));
  } catch (const nlohmann::json::exception& error) {
    fail("[tokenizer] {}: expected a vocabulary as JSON, got: {}", name, error.what());
  } catch (const Error& error) {
    fail("[tokenizer] {}: {}", name, message_without_rank(error));
  }
}

}  // namespace starling::data
