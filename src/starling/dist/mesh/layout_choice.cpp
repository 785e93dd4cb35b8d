#include "starling/dist/mesh/layout_choice.h"

#include <algorithm>

#include "starling/base/config/nearest.h"
#include "starling/base/error.h"
#include "starling/base/file/glob.h"
#include "starling/dist/mesh/mesh_choice.h"

namespace starling::dist {
namespace {

constexpr int kQkvBlocks = 3;

bool is_qkv(std::string_view name) { return name.find(".qkv.") != std::string_view::npos || name.starts_with("qkv."); }

// Of weights [positions, out, taps] the positions, of their bias [out, rows, columns] the rows.
Layout layout_of_positions(std::string_view name, const Shape& shape) {
  if (shape.rank() != 3) return Layout::replicate();
  return Layout::split(name.find(".bias") != std::string_view::npos ? 1 : 0);
}

// Layout of a tensor along one axis; replicated: the tensor is whole.
Layout layout_of(const LayoutRule& rule, std::string_view name, const Shape& shape) {
  if (rule.how == "positions") return layout_of_positions(name, shape);
  if (shape.rank() == 0 || (rule.how == "rows" && shape.rank() < 2)) return Layout::replicate();
  Layout layout = Layout::split(rule.how == "rows" ? 1 : 0);
  if (rule.how == "qkv" || (rule.how == "columns" && is_qkv(name))) layout.blocks = kQkvBlocks;
  return layout;
}

bool matches_as_written(const std::string& pattern, std::string_view name) {
  return glob_matches(pattern, name) || glob_matches(pattern + ".*", name);
}

// True if the rule's pattern is meant for a tensor of this name.
bool matches(const LayoutRule& rule, std::string_view name) {
  constexpr std::string_view kBody = ".body.";
  if (rule.how == kHeightWord) return false;
  if (matches_as_written(rule.pattern, name)) return true;
  std::string shorter(name);
  for (std::size_t at; (at = shorter.find(kBody)) != std::string::npos;) shorter.replace(at, kBody.size(), ".");
  return shorter != name && matches_as_written(rule.pattern, shorter);
}

bool fits(const Shape& shape, Layout layout, int ranks) {
  return shape[layout.dim] % layout.blocks == 0 && shape[layout.dim] / layout.blocks >= ranks;
}

void check_size(const LayoutRule& rule, const MeshShape& mesh, std::string_view name, const Shape& shape,
                Layout layout) {
  const std::int64_t size = shape[layout.dim], blocks = layout.blocks;
  check(size % blocks == 0, "[layout] expected '{}' {} in {} equal blocks for {}: {}, got {} elements", name,
        to_string(shape), blocks, rule.axis, rule.how, size);
  check(size / blocks >= mesh.size(rule.axis),
        "[layout] expected '{}' {} to have at least {} elements along dimension {}{} for {}: {}, got {}", name,
        to_string(shape), mesh.size(rule.axis), static_cast<int>(layout.dim), blocks > 1 ? ", in each block," : "",
        rule.axis, rule.how, size / blocks);
}

}  // namespace

std::vector<std::string> layout_words() {
  return {"columns", "rows", "vocabulary", "qkv", "positions", std::string(kHeightWord)};
}

std::vector<std::string> switch_words() { return {"gather", "turns", "shares"}; }

AxisCuts cuts_of(const std::vector<LayoutRule>& rules, const MeshShape& mesh, std::string_view name,
                 const Shape& shape) {
  // The partition pass cuts along the axes of the mesh in their order, and along `data` last.
  std::vector<std::string> order;
  for (const MeshAxis& axis : mesh.axes()) {
    if (axis.name != kDataAxis) order.push_back(axis.name);
  }
  order.emplace_back(kDataAxis);
  AxisCuts cuts;
  for (const std::string& axis : order) {
    const auto decides = [&](const LayoutRule& rule) { return rule.axis == axis && matches(rule, name); };
    const auto rule = std::find_if(rules.begin(), rules.end(), decides);
    if (rule == rules.end() || mesh.size(axis) == 1) continue;
    const Layout layout = layout_of(*rule, name, shape);
    if (!layout.is_split() || (rule->if_fits && !fits(shape, layout, mesh.size(axis)))) continue;
    check_size(*rule, mesh, name, shape, layout);
    cuts.push_back({axis, layout});
  }
  return cuts;
}

void expect_matches(const LayoutChoice& layout, const std::vector<std::string>& names) {
  for (const LayoutRule& rule : layout.rules) {
    if (rule.how == kHeightWord) continue;
    const auto meant = [&](const std::string& name) { return matches(rule, name); };
    if (std::any_of(names.begin(), names.end(), meant)) continue;
    const std::string near = nearest(rule.pattern, names);
    fail("[layout] expected a pattern of some parameter's name, got '{}', which matches none of {}{}", rule.pattern,
         names.size(), near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near));
  }
}

std::vector<LayoutRule> LayoutChoice::rules_on(const MeshShape& mesh) const {
  std::vector<LayoutRule> all = rules;
  for (const LayoutRule& rule : rules) {
    const auto is_named = [&](const MeshAxis& axis) { return axis.name == rule.axis; };
    check(std::any_of(mesh.axes().begin(), mesh.axes().end(), is_named),
          "[layout] expected an axis of the mesh for '{}', got '{}' on {}", rule.pattern, rule.axis, mesh.describe());
    if (rule.how != kHeightWord) continue;
    check(rule.pattern == kInputs, "[layout] expected {} of '{}', whose pictures it splits, got it of '{}'",
          kHeightWord, kInputs, rule.pattern);
    check(rule.axis != kDataAxis, "[layout] expected an axis beside {} for {}, got {}", kDataAxis, kHeightWord,
          rule.axis);
  }
  if (preset.empty()) return all;
  for (const LayoutPreset& one : layout_presets()) {
    if (one.name != preset) continue;
    if (one.rules == nullptr) return all;
    for (const MeshAxis& axis : mesh.axes()) {
      if ((axis.name == kDataAxis) != one.on_data) continue;
      const auto more = one.rules(axis.name);
      all.insert(all.end(), more.begin(), more.end());
      return all;
    }
    fail("[layout] expected a mesh with an axis beside data for {}, such as {{data: 1, model: 2}}, got {}", preset,
         mesh.describe());
  }
  fail("[layout] expected a known preset, got '{}'", preset);
}

}  // namespace starling::dist

namespace starling::detail {
namespace {

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const auto& preset : dist::layout_presets()) names.push_back(preset.name);
  return names;
}

constexpr const char *kPreset = "preset", *kSwitch = "switch";

// {preset: NAME, switch: WORD}
dist::LayoutChoice read_preset(const ConfigNode& node) {
  dist::LayoutChoice layout;
  for (const auto& [key, value] : node.as_map()) {
    if (key == kPreset) continue;
    if (key != kSwitch) value.refuse("nothing but preset and switch beside each other", "'" + key + "'");
  }
  const std::vector<std::string> names = preset_names(), words = dist::switch_words();
  const auto& preset = dist::layout_presets()[node.at(kPreset).as_choice(names)];
  layout.preset = preset.name;
  const auto given = node.find(kSwitch);
  if (!given) return layout;
  if (!preset.switches) given->refuse("a switch of one_weird_trick or singa_hybrid alone", preset.name);
  const std::string word = words[given->as_choice(words)];
  if (word != words[0]) layout.rounds = word;
  return layout;
}

}  // namespace

nlohmann::json SettingType<dist::LayoutChoice>::schema(SettingRange) {
  const nlohmann::json word = choice_schema(dist::layout_words());
  const nlohmann::json axes = {{"type", "object"}, {"additionalProperties", word}};
  const nlohmann::json patterns = {{"type", "object"}, {"additionalProperties", axes}};
  const nlohmann::json switched = {
      {"type", "object"},
      {"properties", {{kPreset, choice_schema(preset_names())}, {kSwitch, choice_schema(dist::switch_words())}}},
      {"required", {kPreset}},
      {"additionalProperties", false}};
  return {{"anyOf", {choice_schema(preset_names()), switched, patterns, list_schema(patterns)}}};
}

dist::LayoutChoice SettingType<dist::LayoutChoice>::read(const ConfigNode& node, SettingRange) {
  dist::LayoutChoice layout;
  if (node.is_scalar()) {
    const std::vector<std::string> names = preset_names();
    layout.preset = names[node.as_choice(names)];
    return layout;
  }
  if (!node.is_list() && node.find(kPreset)) return read_preset(node);
  const std::vector<std::string> words = dist::layout_words();
  std::vector<std::pair<std::string, ConfigNode>> entries;
  for (const ConfigNode& map : node.is_list() ? node.as_list() : std::vector<ConfigNode>{node}) {
    const auto more = map.as_map();
    entries.insert(entries.end(), more.begin(), more.end());
  }
  for (const auto& [pattern, axes] : entries) {
    if (axes.is_scalar()) axes.refuse("an axis and a layout, such as {model: columns}", axes.as_string());
    if (axes.as_map().empty()) axes.refuse("an axis and a layout, such as {model: columns}", "none");
    for (const auto& [axis, how] : axes.as_map()) layout.rules.push_back({pattern, axis, words[how.as_choice(words)]});
  }
  return layout;
}

nlohmann::json SettingType<dist::LayoutChoice>::json(const dist::LayoutChoice& value) {
  if (!value.rounds.empty()) return {{kPreset, value.preset}, {kSwitch, value.rounds}};
  if (!value.preset.empty()) return value.preset;
  const auto before = [](const auto& a, const auto& b) { return a.pattern < b.pattern; };
  nlohmann::json map = nlohmann::json::object(), list = nlohmann::json::array();
  for (const auto& rule : value.rules) {
    map[rule.pattern][rule.axis] = rule.how;
    list.push_back({{rule.pattern, {{rule.axis, rule.how}}}});
  }
  return std::is_sorted(value.rules.begin(), value.rules.end(), before) ? map : list;
}

}  // namespace starling::detail
