#include "starling/base/config/nearest.h"

#include <algorithm>
#include <cctype>
#include <numeric>

#include "starling/base/config/synonyms.h"

namespace starling {
namespace {

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before;  // the row before the last one
  std::vector<std::size_t> last(b.size() + 1);
  std::iota(last.begin(), last.end(), 0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::vector<std::size_t> row(b.size() + 1);
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      row[j + 1] = std::min({last[j] + (a[i] == b[j] ? 0 : 1), row[j] + 1, last[j + 1] + 1});
      const bool swapped = i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j];
      if (swapped) row[j + 1] = std::min(row[j + 1], before[j - 1] + 1);
    }
    before = std::move(last);
    last = std::move(row);
  }
  return last.back();
}

}  // namespace

// Names of other frameworks come first: the word here that means the same. Two swapped neighbours count as one edit,
// capitals as none; for words of up to five letters one edit is the most: further ones suggest words that have nothing
// to do with each other.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  if (std::string known = synonym(word, candidates); !known.empty()) return known;
  const std::string wanted = lower_case(word);
  std::string best;
  // Of words of one letter every other one is one edit away.
  std::size_t best_distance = word.size() < 2 ? 1 : std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const auto& candidate : candidates) {
    const auto distance = edit_distance(wanted, lower_case(candidate));
    if (distance >= best_distance) continue;
    best_distance = distance;
    best = candidate;
  }
  return best;
}

}  // namespace starling
