#pragma once

#include <memory>
#include <vector>

#include "starling/dist/comm/comm.h"
#include "starling/dist/mesh/mesh_shape.h"
#include "starling/ops/def/scopes/comm_world.h"

namespace starling {

struct MeshOptions {
  std::vector<MeshShape::Axes> joined = {};  // groups over several axes, such as {{"data", "model"}}
  std::chrono::milliseconds deadline{0};     // for all ranks to come; 0: the communicator's default
};

// Ranks of a communicator in a grid with named axes. Each axis is a group of ranks with a communicator of its own, that
// of the ranks which differ from this one along the axis only; `joined` asks for groups over several axes.
//
//   Mesh mesh(*comm, {{"data", 2}, {"model", 2}});     // on all four ranks
//   CommScope scope(mesh);
//   Tensor y = all_reduce(x, {.group = Symbol("model")});
//
// What goes to different groups may be under way at once, from one thread for each group. All groups and `comm` break
// together.
class Mesh {
 public:
  // Collective: all ranks of `comm` call it with the same axes. `comm` must outlive the mesh. Throws Error, before
  // anything is sent, unless the sizes of the axes multiply to the ranks of `comm`.
  Mesh(Comm& comm, std::vector<MeshAxis> axes, const MeshOptions& options = {});

  const MeshShape& shape() const { return shape_; }
  int rank() const { return comm_->rank(); }
  int coordinate(std::string_view axis) const { return shape_.coordinate(rank(), axis); }

  Comm& comm() const { return *comm_; }  // all ranks
  // "model", "data+model"; throws Error if there is no such group. share() keeps it alive for strategies that own
  // theirs.
  Comm& group(std::string_view name) const { return *share(name); }
  const std::shared_ptr<Comm>& share(std::string_view name) const;
  const CommWorld& world() const { return world_; }  // for scopes and programs; valid while the mesh lives

 private:
  void add(const MeshShape::Axes& axes, const CallOptions& options);

  Comm* comm_;
  MeshShape shape_;
  std::vector<std::shared_ptr<Comm>> comms_;  // by group
  std::vector<WorldGroup> groups_;
  CommWorld world_;
};

}  // namespace starling
