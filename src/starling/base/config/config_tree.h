#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace starling {

// A YAML value as read, not yet interpreted as a type.
struct ConfigTree {
  enum class Kind { null, scalar, list, map };
  struct Entry;

  Kind kind = Kind::null;
  std::string where;
  std::string text;      // text of a scalar
  bool quoted = false;   // a quoted scalar is a string, whatever it looks like
  bool removed = false;  // of a list: left out, but counted, so that the elements behind keep their numbers
  std::vector<ConfigTree> items;
  std::vector<Entry> entries;
  std::vector<std::string> repeated;  // of the whole file, at its top: what to tell of keys that stand there twice

  const Entry* find(std::string_view key) const;
  Entry* find(std::string_view key);
};

struct ConfigTree::Entry {
  std::string key;
  std::string where;
  ConfigTree value;
};

// Reads one YAML document. A non-empty `place` replaces file:line:column as the place of every value. Of a key that
// stands twice in a map the first counts.
ConfigTree parse_config_tree(const std::string& text, const std::string& file, const std::string& place = "");

// Applies "a.b=value" to the tree.
void apply_override(ConfigTree& root, std::string_view assignment);

}  // namespace starling
