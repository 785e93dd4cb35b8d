#include "starling/dist/strategy/servers/server_rule.h"

namespace starling::dist {
namespace {

// Project Adam: asynchronous replicas that send errors and activations of dense layers in place of their products.
struct ProjectAdamOptions {
  CodecChoice codec{codec_kinds().by_name("factors"), {}};
  static Settings settings() { return {codec_setting(&ProjectAdamOptions::codec)}; }
  ServerRule rule() const { return {.codec = codec}; }
};

}  // namespace

void register_strategy_project_adam(StrategyKinds& kinds) {
  add_server_strategy<ProjectAdamOptions>(
      kinds, "project_adam", "async, and dense layers send their errors and activations, which the servers multiply");
}

}  // namespace starling::dist
