#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace starling {

// Axis of a mesh: its name, by which collectives and layouts refer to it, and the number of ranks along it.
struct MeshAxis {
  std::string name;
  int size = 1;
};

// Ranks of a world in a grid with named axes, as plain arithmetic. Ranks are numbered in row-major order: the first
// axis is the outermost, ranks that are neighbours along the last one have neighbouring numbers, so the axis with the
// most traffic comes last.
//
//   MeshShape shape({{"data", 2}, {"model", 3}});
//   shape.coordinates(4)         // {1, 1}
//   shape.group(4, {"model"})    // {3, 4, 5}: differ from rank 4 along "model" only
//   shape.group(4, {"data"})     // {1, 4}
class MeshShape {
 public:
  using Axes = std::vector<std::string>;  // names

  // Throws Error unless there is at least one axis, names are not empty and differ, and sizes are at least 1.
  explicit MeshShape(std::vector<MeshAxis> axes);

  const std::vector<MeshAxis>& axes() const { return axes_; }
  int ranks() const { return ranks_; }
  int size(std::string_view axis) const;
  std::string describe() const;  // "data 2 x model 3"

  std::vector<int> coordinates(int rank) const;  // one for each axis
  int coordinate(int rank, std::string_view axis) const;
  int rank_at(std::span<const int> coordinates) const;

  // Ranks that agree with `rank` in all other axes, in the order of their coordinates along these. The order in which
  // the axes are given does not matter.
  std::vector<int> group(int rank, const Axes& axes) const;
  // Name of such groups in collectives: "model"; of several axes, in the order of the mesh, "data+model".
  std::string group_name(const Axes& axes) const;

 private:
  std::size_t position(std::string_view axis) const;
  std::vector<bool> chosen(const Axes& axes) const;  // by axis; throws if one is unknown or named twice
  void check_rank(int rank) const;
  int stride(std::size_t axis) const;  // distance of the numbers of neighbours along the axis

  std::vector<MeshAxis> axes_;
  int ranks_ = 1;
};

}  // namespace starling
