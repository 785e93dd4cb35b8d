#include "starling/ops/def/scopes/comm_world.h"

#include "starling/base/error.h"
#include "starling/base/thread/thread_context.h"
#include "starling/ops/def/op_def.h"

namespace starling {
namespace {

[[noreturn]] void fail_unknown(const CommWorld& world, Symbol name, std::string_view op) {
  if (world.groups.empty())
    fail("[{}] expected no group, as this world has no mesh to name groups, got group '{}'", op, name.str());
  std::string known;
  for (const WorldGroup& group : world.groups) known += (known.empty() ? "" : ", ") + group.name.str();
  fail("[{}] expected one of the groups {}, got '{}'", op, known, name.str());
}

}  // namespace

const CommWorld& current_world() {
  static constexpr CommWorld kAlone;
  const CommWorld* innermost = thread_context().world;
  return innermost ? *innermost : kAlone;
}

WorldGroup find_group(const CommWorld& world, Symbol name, std::string_view op) {
  if (name.empty() || (world.groups.empty() && world.ranks == 1)) return {name, world.comm, world.rank, world.ranks};
  for (const WorldGroup& group : world.groups) {
    if (group.name == name) return group;
  }
  fail_unknown(world, name, op);
}

Symbol comm_group(const OpDef& op, const Attrs& attrs) {
  const AttrField* field = op.comm ? attrs.find("group") : nullptr;
  return field ? attrs.get<Symbol>(*field) : Symbol();
}

WorldScope::WorldScope(const CommWorld& world) : world_(world), before_(thread_context().world) {
  thread_context().world = &world_;
}
WorldScope::~WorldScope() { thread_context().world = before_; }

}  // namespace starling
