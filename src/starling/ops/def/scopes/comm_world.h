#pragma once

#include <span>
#include <string_view>

#include "starling/ops/def/attrs.h"

namespace starling {

class Comm;
struct OpDef;

// Named group of ranks of a world, and this rank's place in it. A Mesh (dist/mesh/mesh.h) has one for every axis.
struct WorldGroup {
  Symbol name{};
  Comm* comm = nullptr;
  int rank = 0;
  int ranks = 1;
};

// World of this thread's collectives. Without a communicator it is this rank alone.
struct CommWorld {
  Comm* comm = nullptr;
  int rank = 0;
  int ranks = 1;
  std::span<const WorldGroup> groups = {};  // groups that ops may name; must outlive the world
};

// World of this thread's innermost scope; a world of one outside any.
const CommWorld& current_world();

// The group of a world that an op names. An empty name stands for all ranks; in a world of one rank without groups
// every name stands for that rank. Throws Error for any other name, naming the op and the groups there are.
WorldGroup find_group(const CommWorld& world, Symbol name, std::string_view op);

// Name of the group that an application of an op communicates in; empty: all ranks, or the op does not communicate.
Symbol comm_group(const OpDef& op, const Attrs& attrs);

// Scope that directs collectives applied by this thread, and programs it runs without a communicator of their own, to a
// world. dist/comm/comm_scope.h makes one from a communicator or a mesh.
class WorldScope {
 public:
  explicit WorldScope(const CommWorld& world);
  ~WorldScope();
  WorldScope(const WorldScope&) = delete;
  WorldScope& operator=(const WorldScope&) = delete;

 private:
  CommWorld world_;
  const CommWorld* before_;
};

}  // namespace starling
