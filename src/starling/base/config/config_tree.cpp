#include "starling/base/config/config_tree.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <deque>
#include <optional>
#include <sstream>
#include <utility>

#include "starling/base/error.h"

namespace starling {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 20;
constexpr std::size_t kMostDepth = 32;
constexpr std::size_t kMostEntries = 1000;  // entries per map; lookup is linear
constexpr std::size_t kMostRepeated = 100;  // keys told to stand there twice

// Builds the tree from the parser's events, so that limits hold before anything is expanded.
class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(std::string file, std::string place) : file_(std::move(file)), place_(std::move(place)) {}

  ConfigTree take() {
    root_.repeated = std::move(repeated_);
    return std::move(root_);
  }
  std::string where(const YAML::Mark& mark) const {
    return place_.empty() ? fmt::format("{}:{}:{}", file_, mark.line + 1, mark.column + 1) : place_;
  }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    place(mark, ConfigTree::Kind::null, "~");
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    fail("{}: [config] expected a value, got an alias (aliases are not supported)", where(mark));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    if (ConfigTree* value = place(mark, ConfigTree::Kind::scalar, text)) {
      value->text = text;
      value->quoted = tag == "!";
    }
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, ConfigTree::Kind::list);
  }
  void OnSequenceEnd() override { open_.pop_back(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, ConfigTree::Kind::map);
  }
  void OnMapEnd() override { open_.pop_back(); }

 private:
  struct Open {
    ConfigTree* tree;
    ConfigTree* awaited = nullptr;  // maps: where the value of the key just read goes
  };

  void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) const {
    check(anchor == 0, "{}: [config] expected a value, got an anchor (anchors are not supported)", where(mark));
  }
  void refuse_tag(const YAML::Mark& mark, const std::string& tag) const {
    check(tag.empty() || tag == "?" || tag == "!",
          "{}: [config] expected a value, got the tag '{}' (tags are not supported)", where(mark), tag);
  }

  // Slot for the next value. Null when the scalar just read was a key, whose value follows. Addresses stay valid while
  // a value is open, since its parent grows only after it is closed.
  ConfigTree* place(const YAML::Mark& mark, ConfigTree::Kind kind, const std::string& text) {
    ConfigTree* value = &root_;
    if (!open_.empty()) {
      Open& parent = open_.back();
      if (parent.tree->kind == ConfigTree::Kind::list) {
        value = &parent.tree->items.emplace_back();
      } else if (parent.awaited != nullptr) {
        value = std::exchange(parent.awaited, nullptr);
      } else {
        add_key(parent, mark, kind, text);
        return nullptr;
      }
    }
    value->kind = kind;
    value->where = where(mark);
    return value;
  }

  void add_key(Open& map, const YAML::Mark& mark, ConfigTree::Kind kind, const std::string& key) {
    check(kind == ConfigTree::Kind::scalar || kind == ConfigTree::Kind::null,
          "{}: [config] expected a key that is a word, got a list or a map", where(mark));
    if (const auto* before = map.tree->find(key)) {
      tell_repeated(mark, key, before->where);
      map.awaited = &ignored_.emplace_back();
      return;
    }
    check(map.tree->entries.size() < kMostEntries, "{}: [config] expected at most {} keys in a map, got more",
          where(mark), kMostEntries);
    map.tree->entries.push_back({key, where(mark), {}});
    map.awaited = &map.tree->entries.back().value;
  }

  // Told by whoever reads the file, so that one slip does not hide others.
  void tell_repeated(const YAML::Mark& mark, const std::string& key, const std::string& first) {
    if (repeated_.size() == kMostRepeated) return;
    repeated_.push_back(
        fmt::format("{}: [config] expected each key once, got '{}' again (first at {}; leave one of the two out)",
                    where(mark), key, first));
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, ConfigTree::Kind kind) {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    check(open_.size() < kMostDepth, "{}: [config] expected at most {} levels, got more", where(mark), kMostDepth);
    open_.push_back({.tree = place(mark, kind, "")});
  }

  std::string file_;
  std::string place_;
  ConfigTree root_;
  std::vector<Open> open_;
  std::deque<ConfigTree> ignored_;  // values of repeated keys
  std::vector<std::string> repeated_;
};

// Place of the first tab that indents a line, up to the line where reading failed.
std::optional<YAML::Mark> indenting_tab(const std::string& text, int last_line) {
  std::istringstream lines(text);
  std::string line;
  for (int number = 0; number <= last_line && std::getline(lines, line); ++number) {
    const auto tab = line.find('\t');
    if (tab == std::string::npos || tab > line.find_first_not_of(" \t")) continue;
    YAML::Mark mark;
    mark.line = number;
    mark.column = static_cast<int>(tab);
    return mark;
  }
  return std::nullopt;
}

std::size_t indent_of(const std::string& line) { return std::min(line.find_first_not_of(" -"), line.size()); }

bool is_blank(const std::string& line) {
  const auto first = line.find_first_not_of(' ');
  return first == std::string::npos || line[first] == '#';
}

// A line without comment and spaces around it.
std::string content(const std::string& line) {
  const std::string text = line.substr(0, line.find(" #"));
  const auto first = text.find_first_not_of(' ');
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \r") - first + 1);
}

// "model:lenet" of a line that has a colon without a space behind it and no other; empty: none.
std::string glued_key(const std::string& line) {
  const std::string text = content(line);
  const auto colon = text.find(':');
  const bool glued = colon != std::string::npos && colon + 1 < text.size() && text[colon + 1] != ' ' &&
                     text.find(": ") == std::string::npos && text.find('/') == std::string::npos;
  return glued ? text : "";
}

// Hint from the indentation of the line where reading failed, or from a key above it; empty: none.
std::string slip(const std::string& text, int failed_line) {
  std::istringstream lines(text);
  std::string line, above;
  for (int number = 0; std::getline(lines, line); ++number) {
    if (const std::string glued = glued_key(line); !glued.empty() && number <= failed_line)
      return fmt::format(" (write a space behind the colon of '{}')", glued);
    if (number == failed_line) break;
    if (!is_blank(line)) above = line;
  }
  if (above.empty() || is_blank(line)) return "";
  if (indent_of(line) > indent_of(above) && !content(above).ends_with(":"))
    return fmt::format(" (the line is indented deeper than '{}' above it, which has a value: align the two)",
                       content(above));
  if (indent_of(line) < indent_of(above))
    return fmt::format(" (its indentation is that of no key above: align '{}' with the keys that it belongs to)",
                       content(line));
  return "";
}

// Finds the first bracket or quote of a text that is not closed, or is closed by another one.
class Brackets {
 public:
  std::string look(const std::string& text) {
    for (const char c : text) {
      if (std::string wrong = next(c); !wrong.empty()) return wrong;
      before_ = c;
      line_ += c == '\n' ? 1 : 0;
    }
    if (quote_.bracket != 0)
      return fmt::format(" (the quote {} of line {} is not closed)", quote_.bracket, quote_.line);
    if (open_.empty()) return "";
    return fmt::format(" (the {} of line {} is not closed)", open_.back().bracket, open_.back().line);
  }

 private:
  struct Open {
    char bracket = 0;
    int line = 0;
  };
  std::string next(char c) {
    if (comment_ || quote_.bracket != 0) {
      comment_ = comment_ && c != '\n';
      if (c == quote_.bracket) quote_ = {};
      return "";
    }
    const bool begins = before_ == ' ' || before_ == '\n' || before_ == '[' || before_ == '{' || before_ == ',';
    comment_ = c == '#' && begins;
    if ((c == '"' || c == '\'') && begins) quote_ = {c, line_};
    if (c == '[' || c == '{') open_.push_back({c, line_});
    if (c != ']' && c != '}') return "";
    const char wanted = c == ']' ? '[' : '{';
    if (open_.empty()) return fmt::format(" (the {} of line {} closes nothing)", c, line_);
    if (open_.back().bracket != wanted)
      return fmt::format(" (the {} of line {} is not closed before the {} of line {})", open_.back().bracket,
                         open_.back().line, c, line_);
    open_.pop_back();
    return "";
  }

  std::vector<Open> open_;
  Open quote_;
  bool comment_ = false;
  char before_ = '\n';
  int line_ = 1;
};

// Guess from the text of a file that is no YAML at what is wrong with it; empty: none.
std::string likely_slip(const std::string& text, const YAML::Exception& error) {
  if (std::string told = slip(text, error.mark.line); !told.empty()) return told;
  if (std::string told = Brackets().look(text); !told.empty()) return told;
  const bool in_brackets = std::string_view(error.msg).find("flow not found") != std::string_view::npos;
  return in_brackets ? " (a comma is missing here or before)" : "";
}

std::optional<std::size_t> list_index(std::string_view key, const ConfigTree& list) {
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
  if (error != std::errc{} || end != key.data() + key.size() || index >= list.items.size()) return std::nullopt;
  return index;
}

// A bare name stands for a kind: with an option set beside it, it is the map {name: …}.
void spread_name(ConfigTree& tree) {
  const bool word = !tree.text.empty() && std::isalpha(static_cast<unsigned char>(tree.text[0])) != 0 &&
                    tree.text != "true" && tree.text != "false";
  if (tree.kind != ConfigTree::Kind::scalar || !word) return;
  ConfigTree map;
  map.kind = ConfigTree::Kind::map;
  map.where = tree.where;
  map.entries.push_back({"name", tree.where, tree});
  tree = std::move(map);
}

// Value of `key` in `tree`, created when missing.
ConfigTree& step_into(ConfigTree& tree, std::string_view key, const std::string& place) {
  if (tree.kind == ConfigTree::Kind::null) {
    tree.kind = ConfigTree::Kind::map;
    tree.where = place;
  }
  spread_name(tree);
  if (tree.kind == ConfigTree::Kind::list) {
    const auto index = list_index(key, tree);
    check(index.has_value(), "{}: [config] expected the number of an element below {}, got '{}'", place,
          tree.items.size(), key);
    return tree.items[*index];
  }
  check(tree.kind == ConfigTree::Kind::map, "{}: [config] expected a map to hold '{}', got '{}' (at {})", place, key,
        tree.text, tree.where);
  if (auto* entry = tree.find(key)) return entry->value;
  auto& entry = tree.entries.emplace_back(ConfigTree::Entry{std::string(key), place, {}});
  entry.value.where = place;
  return entry.value;
}

}  // namespace

const ConfigTree::Entry* ConfigTree::find(std::string_view key) const {
  const auto it = std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) { return entry.key == key; });
  return it == entries.end() ? nullptr : &*it;
}
ConfigTree::Entry* ConfigTree::find(std::string_view key) { return const_cast<Entry*>(std::as_const(*this).find(key)); }

ConfigTree parse_config_tree(const std::string& text, const std::string& file, const std::string& place) {
  check(text.size() <= kMostBytes, "{}: [config] expected at most {} bytes, got {}", place.empty() ? file : place,
        kMostBytes, text.size());
  TreeBuilder builder(file, place);
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
    TreeBuilder second(file, place);
    check(!parser.HandleNextDocument(second), "{}: [config] expected one document, got a second one",
          place.empty() ? file : place);
  } catch (const YAML::Exception& error) {
    if (const auto tab = indenting_tab(text, error.mark.line))
      fail("{}: [config] expected spaces before the key, got a tab (YAML is indented with spaces only)",
           builder.where(*tab));
    fail("{}: [config] expected YAML, got: {}{}", builder.where(error.mark), error.msg, likely_slip(text, error));
  }
  ConfigTree tree = builder.take();
  // Nothing has no line of its own; `file` may be the place of what it stands for.
  if (tree.where.empty()) tree.where = place.empty() ? file : place;
  return tree;
}

void apply_override(ConfigTree& root, std::string_view assignment) {
  const auto equals = assignment.find('=');
  check(equals != std::string_view::npos && equals > 0, "--set {}: [config] expected key.key=value, got '{}'",
        assignment, assignment);
  std::string_view path = assignment.substr(0, equals);
  const std::string place = fmt::format("--set {}", path);
  ConfigTree* tree = &root;
  std::size_t depth = 0;
  while (true) {
    const auto dot = path.find('.');
    const auto key = path.substr(0, dot);
    check(!key.empty() && ++depth < kMostDepth,
          "{}: [config] expected a path of fewer than {} keys, got an empty or a "
          "deeper one",
          place, kMostDepth);
    tree = &step_into(*tree, key, place);
    if (dot == std::string_view::npos) break;
    path.remove_prefix(dot + 1);
  }
  ConfigTree value = parse_config_tree(std::string(assignment.substr(equals + 1)), "", place);
  if (!value.repeated.empty()) throw Error(value.repeated.front());
  *tree = std::move(value);
}

}  // namespace starling
