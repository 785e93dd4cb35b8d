#include "starling/dist/strategy/servers/server_rule.h"

namespace starling::dist {
namespace {

// MXNet's KVStore: dist_sync, dist_async. Its level inside a host is a group of workers (topology).
struct KvstoreOptions {
  enum class Update { sync, async } update = Update::sync;
  static Settings settings() {
    return {choice("update", &KvstoreOptions::update, {"sync", "async"},
                   "of the servers: a step with the mean of all groups, or one with each as it comes")};
  }
  ServerRule rule() const {
    if (update == Update::async) return {};
    return {.bound = 0, .merge = ps::Merge::mean, .in_turn = true};
  }
};

}  // namespace

void register_strategy_kvstore(StrategyKinds& kinds) {
  add_server_strategy<KvstoreOptions>(
      kinds, "kvstore",
      "two levels: groups of workers (topology) merge their gradients, parameter servers those of the groups");
}

}  // namespace starling::dist
