#pragma once

#include <vector>

#include "starling/base/config/settings.h"
#include "starling/dist/mesh/mesh_shape.h"

namespace starling::dist {

inline constexpr std::string_view kDataAxis = "data";

// A mesh as an option of a strategy, `mesh: {data: 2, model: 2}`: axes in their order, the outermost first. Rows of a
// batch are split along the axis `data`, parameters along others, as a layout says. Without axes: all ranks are on the
// axis `data`.
struct MeshChoice {
  std::vector<MeshAxis> axes{};

  bool empty() const { return axes.empty(); }
  std::int64_t ranks() const;        // 0 without axes
  MeshShape shape(int ranks) const;  // with an axis `data`, of size 1 where none is named
};

}  // namespace starling::dist

namespace starling::detail {

template <>
struct SettingType<dist::MeshChoice> {
  static nlohmann::json schema(SettingRange range);
  static dist::MeshChoice read(const ConfigNode& node, SettingRange range);
  // A map; a list of maps of one axis each where the order of axes is not that of their names.
  static nlohmann::json json(const dist::MeshChoice& value);
};

}  // namespace starling::detail
