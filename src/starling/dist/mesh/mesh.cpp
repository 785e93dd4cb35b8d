#include "starling/dist/mesh/mesh.h"

#include <algorithm>

#include "starling/base/error.h"

namespace starling {

Mesh::Mesh(Comm& comm, std::vector<MeshAxis> axes, const MeshOptions& options) : comm_(&comm), shape_(std::move(axes)) {
  check(shape_.ranks() == comm.size(), "[mesh] expected {} ranks for {}, got {}", shape_.ranks(), shape_.describe(),
        comm.size());
  for (const auto& joined : options.joined) shape_.group_name(joined);  // throws before any rank is asked
  for (const MeshAxis& axis : shape_.axes()) add({axis.name}, {.name = "mesh", .deadline = options.deadline});
  for (const auto& joined : options.joined) add(joined, {.name = "mesh", .deadline = options.deadline});
  world_ = {comm_, comm.rank(), comm.size(), groups_};
}

// Ranks of a group have its first rank for color and keep their order.
void Mesh::add(const MeshShape::Axes& axes, const CallOptions& options) {
  const Symbol name(shape_.group_name(axes));
  for (const WorldGroup& known : groups_) {
    if (known.name == name) return;
  }
  comms_.push_back(comm_->split(shape_.group(rank(), axes).front(), rank(), options));
  groups_.push_back({name, comms_.back().get(), comms_.back()->rank(), comms_.back()->size()});
}

const std::shared_ptr<Comm>& Mesh::share(std::string_view name) const {
  check(!name.empty(), "[mesh] expected the name of a group, got an empty one: comm() has all ranks");
  const Comm* wanted = find_group(world_, Symbol(name), "mesh").comm;
  return *std::find_if(comms_.begin(), comms_.end(), [&](const auto& comm) { return comm.get() == wanted; });
}

}  // namespace starling
