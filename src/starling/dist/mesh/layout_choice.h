#pragma once

#include <string>
#include <vector>

#include "starling/base/config/settings.h"
#include "starling/dist/mesh/mesh_shape.h"
#include "starling/ops/def/sharding/sharding.h"
#include "starling/tensor/shape.h"

namespace starling::dist {

// Cut of a tensor along an axis of the mesh; `layout` is a split. Of several cuts each takes what those before it have
// left.
struct AxisCut {
  std::string axis;
  Layout layout;
};
using AxisCuts = std::vector<AxisCut>;

// How parameters whose names match a pattern lie along an axis of the mesh. A pattern is that of a parameter or of a
// module, whose parameters are all meant: "block*.think.fc1". The part `body` of residual branches may be left out.
struct LayoutRule {
  std::string pattern;
  std::string axis;
  std::string how;       // one of layout_words()
  bool if_fits = false;  // a tensor with too few elements is whole; else it is refused
};

// Words for layouts of the parameters of a layer y = x · weightᵀ + bias:
//   columns     outputs of the layer: rows of its weight [out, in], and the bias
//   rows        inputs of the layer: columns of its weight; each rank has a term of the sum, and the bias is whole
//   vocabulary  rows of an embedding's table, or classes of the last layer
//   qkv         columns in three blocks, each split by itself: queries, keys and values of whole heads. `columns` of a
//               module called qkv means the same
//   positions   of filters that are not shared between positions: weights [positions, out, taps], bias [out, rows,
//   columns]
// and of the inputs, whose pattern is `input`:
//   height      rows of pictures, [n, c, rows, …]; parameters stay as other rules have them
inline constexpr std::string_view kHeightWord = "height", kInputs = "input";
std::vector<std::string> layout_words();

// Words for the switch of a preset with rounds: gather (all at once), turns, shares.
std::vector<std::string> switch_words();

// A layout as an option of a strategy: the name of a preset, or a map of patterns, `{"block*.think.fc1": {model:
// columns}}`, or a preset with its switch, `{preset: one_weird_trick, switch: turns}`. What no pattern names is whole
// on every rank.
struct LayoutChoice {
  std::string preset{};  // empty: the rules alone
  std::vector<LayoutRule> rules{};
  // How layers that all ranks have a part of get the rows of all: "turns": each rank broadcasts its rows when its turn
  // comes, "shares": each round has a share of every rank's rows; empty: all rows are gathered at once.
  std::string rounds{};

  bool empty() const { return preset.empty() && rules.empty(); }
  // Rules with those of the preset for a mesh. Throws Error if a rule names an axis that the mesh has not, or splits
  // inputs by another word or along `data`, whose workers have other samples.
  std::vector<LayoutRule> rules_on(const MeshShape& mesh) const;
};

// AxisCuts of a tensor of this name and shape: a parameter, or state of the optimizer, whose name begins with that of
// its parameter. The first rule that matches decides for its axis. Throws Error if a dimension has too few elements.
AxisCuts cuts_of(const std::vector<LayoutRule>& rules, const MeshShape& mesh, std::string_view name,
                 const Shape& shape);

// Throws Error unless every rule of the choice itself, not of its preset, is meant for some tensor of these names.
void expect_matches(const LayoutChoice& layout, const std::vector<std::string>& names);

// Names of presets, and what one does.
struct LayoutPreset {
  std::string name;
  std::string doc;
  std::vector<LayoutRule> (*rules)(const std::string& axis);  // null: none
  bool on_data = false;                                       // along the axis `data`; else along the first other one
  bool switches = false;                                      // takes switch_words()
};
const std::vector<LayoutPreset>& layout_presets();

}  // namespace starling::dist

namespace starling::detail {

template <>
struct SettingType<dist::LayoutChoice> {
  static nlohmann::json schema(SettingRange range);
  static dist::LayoutChoice read(const ConfigNode& node, SettingRange range);
  // A map; a list of maps of one pattern each where the order of patterns, of which the first decides, is another.
  static nlohmann::json json(const dist::LayoutChoice& value);
};

}  // namespace starling::detail
