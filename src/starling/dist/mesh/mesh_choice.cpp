#include "starling/dist/mesh/mesh_choice.h"

#include <algorithm>

#include "starling/base/error.h"

namespace starling::dist {

std::int64_t MeshChoice::ranks() const {
  std::int64_t product = axes.empty() ? 0 : 1;
  for (const MeshAxis& axis : axes) product *= axis.size;
  return product;
}

MeshShape MeshChoice::shape(int ranks) const {
  if (axes.empty()) return MeshShape({{std::string(kDataAxis), ranks}});
  std::vector<MeshAxis> all = axes;
  const auto is_data = [](const MeshAxis& axis) { return axis.name == kDataAxis; };
  if (std::none_of(all.begin(), all.end(), is_data)) all.insert(all.begin(), {std::string(kDataAxis), 1});
  MeshShape shape(all);
  check(shape.ranks() == ranks, "[mesh] expected {} workers for {}, got {}", shape.ranks(), shape.describe(), ranks);
  return shape;
}

}  // namespace starling::dist

namespace starling::detail {
namespace {

constexpr std::int64_t kMostRanks = 65536;

bool is_name(const std::string& name) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  return !name.empty() && std::all_of(name.begin(), name.end(), is_letter);
}

void add_axis(dist::MeshChoice& mesh, const std::string& name, const ConfigNode& node) {
  if (!is_name(name)) node.refuse("the name of an axis in small letters, such as model", "'" + name + "'");
  for (const MeshAxis& axis : mesh.axes) {
    if (axis.name == name) node.refuse("axes of different names", "'" + name + "' twice");
  }
  mesh.axes.push_back({name, static_cast<int>(node.as_int({.min = 1, .max = kMostRanks}))});
  if (mesh.ranks() > kMostRanks)
    node.refuse(fmt::format("at most {} workers in all", kMostRanks), std::to_string(mesh.ranks()));
}

}  // namespace

nlohmann::json SettingType<dist::MeshChoice>::schema(SettingRange) {
  const nlohmann::json axes = {{"type", "object"}, {"additionalProperties", {{"type", "integer"}, {"minimum", 1}}}};
  return {{"anyOf", {axes, list_schema(axes)}}};
}

dist::MeshChoice SettingType<dist::MeshChoice>::read(const ConfigNode& node, SettingRange) {
  dist::MeshChoice mesh;
  if (node.is_scalar()) node.refuse("a map of axes and their sizes, such as {data: 2, model: 2}", node.as_string());
  const std::vector<ConfigNode> maps = node.is_list() ? node.as_list() : std::vector<ConfigNode>{node};
  for (const ConfigNode& map : maps) {
    for (const auto& [name, size] : map.as_map()) add_axis(mesh, name, size);
  }
  return mesh;
}

nlohmann::json SettingType<dist::MeshChoice>::json(const dist::MeshChoice& value) {
  const auto before = [](const MeshAxis& a, const MeshAxis& b) { return a.name < b.name; };
  if (std::is_sorted(value.axes.begin(), value.axes.end(), before)) {
    nlohmann::json map = nlohmann::json::object();
    for (const MeshAxis& axis : value.axes) map[axis.name] = axis.size;
    return map;
  }
  nlohmann::json list = nlohmann::json::array();
  for (const MeshAxis& axis : value.axes) list.push_back({{axis.name, axis.size}});
  return list;
}

}  // namespace starling::detail
