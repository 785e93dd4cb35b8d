#include <algorithm>
#include <set>

#include "starling/base/error.h"
#include "starling/data/tokenizers/byte_text.h"
#include "starling/data/tokenizers/tokenizer.h"

namespace starling::data {

std::shared_ptr<const CharacterTokenizer> CharacterTokenizer::of_text(std::string_view text) {
  std::array<bool, 256> seen{};
  std::set<std::string, std::less<>> characters;
  while (!text.empty()) {
    const std::size_t size = character_size(text);
    const auto first = static_cast<unsigned char>(text[0]);
    if (size > 1 || !seen[first]) {
      if (!characters.contains(text.substr(0, size))) characters.emplace(text.substr(0, size));
      if (size == 1) seen[first] = true;
    }
    text.remove_prefix(size);
  }
  return std::make_shared<const CharacterTokenizer>(std::vector<std::string>(characters.begin(), characters.end()));
}

CharacterTokenizer::CharacterTokenizer(std::vector<std::string> characters, std::int64_t unknown)
    : characters_(std::move(characters)), unknown_(unknown) {
  check(!characters_.empty() && unknown >= -1 && unknown < size(),
        "[tokenizer] expected characters and the unknown one among them, got {} and {}", size(), unknown);
  single_.fill(-1);
  for (std::int64_t id = 0; id < size(); ++id) {
    const auto& character = characters_[static_cast<std::size_t>(id)];
    if (id == unknown) continue;  // the text of the unknown character is only for display
    check(!character.empty() && character_size(character) == character.size(),
          "[tokenizer] expected single characters, got '{}'", text_of_bytes(character));
    sorted_.emplace_back(character, id);
    if (character.size() == 1) single_[static_cast<unsigned char>(character[0])] = id;
  }
  std::sort(sorted_.begin(), sorted_.end());
  for (std::size_t i = 1; i < sorted_.size(); ++i) {
    check(sorted_[i].first != sorted_[i - 1].first, "[tokenizer] expected every character once, got '{}' twice",
          text_of_bytes(sorted_[i].first));
  }
}

void CharacterTokenizer::encode(std::string_view text, std::vector<std::int64_t>& onto) const {
  while (!text.empty()) {
    const std::size_t size = character_size(text);
    const auto character = text.substr(0, size);
    std::int64_t id = unknown_;
    if (size == 1) {
      const auto known = single_[static_cast<unsigned char>(character[0])];
      id = known >= 0 ? known : unknown_;
    } else {
      const auto found = std::lower_bound(sorted_.begin(), sorted_.end(), character,
                                          [](const auto& entry, std::string_view key) { return entry.first < key; });
      if (found != sorted_.end() && found->first == character) id = found->second;
    }
    if (id < 0) {
      fail("[tokenizer] expected characters of the vocabulary, got '{}'", text_of_bytes(character));
    }
    onto.push_back(id);
    text.remove_prefix(size);
  }
}

std::string CharacterTokenizer::token(std::int64_t id) const {
  check_id(id);
  return characters_[static_cast<std::size_t>(id)];
}

nlohmann::json CharacterTokenizer::json() const {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& character : characters_) list.push_back(text_of_bytes(character));
  return {{"kind", kind()}, {"characters", list}, {"unknown", unknown_}};
}

}  // namespace starling::data
