#include "starling/dist/mesh/mesh_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "starling/base/error.h"

namespace starling {
namespace {

constexpr std::int64_t kMostRanks = 1 << 16;

std::string names_of(const std::vector<MeshAxis>& axes) {
  std::string names;
  for (const MeshAxis& axis : axes) names += (names.empty() ? "" : ", ") + axis.name;
  return names;
}

}  // namespace

MeshShape::MeshShape(std::vector<MeshAxis> axes) : axes_(std::move(axes)) {
  check(!axes_.empty(), "[mesh] expected at least one axis, got none");
  std::int64_t ranks = 1;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    const MeshAxis& axis = axes_[i];
    check(!axis.name.empty() && axis.name.find('+') == std::string::npos,
          "[mesh] expected axes with a name without '+', which joins names, got '{}'", axis.name);
    check(axis.size >= 1, "[mesh] expected at least one rank along each axis, got {} along '{}'", axis.size, axis.name);
    const auto same = [&](const MeshAxis& other) { return other.name == axis.name; };
    check(std::none_of(axes_.begin(), axes_.begin() + static_cast<std::ptrdiff_t>(i), same),
          "[mesh] expected axes of different names, got '{}' twice", axis.name);
    ranks *= axis.size;
    check(ranks <= kMostRanks, "[mesh] expected at most {} ranks, got {} or more", kMostRanks, ranks);
  }
  ranks_ = static_cast<int>(ranks);
}

int MeshShape::size(std::string_view axis) const { return axes_[position(axis)].size; }

std::string MeshShape::describe() const {
  std::string text;
  for (const MeshAxis& axis : axes_) text += fmt::format("{}{} {}", text.empty() ? "" : " x ", axis.name, axis.size);
  return text;
}

std::size_t MeshShape::position(std::string_view axis) const {
  const auto found = std::find_if(axes_.begin(), axes_.end(), [&](const MeshAxis& a) { return a.name == axis; });
  if (found == axes_.end()) fail("[mesh] expected one of the axes {}, got '{}'", names_of(axes_), axis);
  return static_cast<std::size_t>(found - axes_.begin());
}

std::vector<bool> MeshShape::chosen(const Axes& axes) const {
  check(!axes.empty(), "[mesh] expected at least one of the axes {}, got none", names_of(axes_));
  std::vector<bool> found(axes_.size());
  for (const std::string& axis : axes) {
    const std::size_t i = position(axis);
    check(!found[i], "[mesh] expected each axis once, got '{}' twice", axis);
    found[i] = true;
  }
  return found;
}

void MeshShape::check_rank(int rank) const {
  check(rank >= 0 && rank < ranks_, "[mesh] expected a rank in [0, {}), got {}", ranks_, rank);
}

int MeshShape::stride(std::size_t axis) const {
  int stride = 1;
  for (std::size_t i = axis + 1; i < axes_.size(); ++i) stride *= axes_[i].size;
  return stride;
}

std::vector<int> MeshShape::coordinates(int rank) const {
  check_rank(rank);
  std::vector<int> found;
  for (std::size_t i = 0; i < axes_.size(); ++i) found.push_back(rank / stride(i) % axes_[i].size);
  return found;
}

int MeshShape::coordinate(int rank, std::string_view axis) const {
  check_rank(rank);
  const std::size_t i = position(axis);
  return rank / stride(i) % axes_[i].size;
}

int MeshShape::rank_at(std::span<const int> coordinates) const {
  check(coordinates.size() == axes_.size(), "[mesh] expected {} coordinates, got {}", axes_.size(), coordinates.size());
  int rank = 0;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    check(coordinates[i] >= 0 && coordinates[i] < axes_[i].size, "[mesh] expected '{}' in [0, {}), got {}",
          axes_[i].name, axes_[i].size, coordinates[i]);
    rank = rank * axes_[i].size + coordinates[i];
  }
  return rank;
}

std::vector<int> MeshShape::group(int rank, const Axes& axes) const {
  const std::vector<bool> along = chosen(axes);
  const std::vector<int> own = coordinates(rank);
  std::vector<int> ranks;
  for (int other = 0; other < ranks_; ++other) {
    const std::vector<int> theirs = coordinates(other);
    bool member = true;
    for (std::size_t i = 0; i < axes_.size(); ++i) member = member && (along[i] || theirs[i] == own[i]);
    if (member) ranks.push_back(other);
  }
  return ranks;
}

std::string MeshShape::group_name(const Axes& axes) const {
  const std::vector<bool> along = chosen(axes);
  std::string name;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (along[i]) name += (name.empty() ? "" : "+") + axes_[i].name;
  }
  return name;
}

}  // namespace starling
