#include "starling/dist/strategy/servers/server_rule.h"

namespace starling::dist {
namespace {

// Poseidon's hybrid communication with servers: synchronous, each dense layer by its gradient or by its factors.
struct PoseidonOptions {
  CodecChoice codec{codec_kinds().by_name("factors"), {}};
  static Settings settings() { return {codec_setting(&PoseidonOptions::codec)}; }
  ServerRule rule() const { return {.bound = 0, .merge = ps::Merge::mean, .codec = codec, .in_turn = true}; }
};

}  // namespace

void register_strategy_poseidon(StrategyKinds& kinds) {
  add_server_strategy<PoseidonOptions>(
      kinds, "poseidon", "sync_server, and dense layers send their gradient or its factors, whichever has fewer bytes");
}

}  // namespace starling::dist
