#include "starling/dist/strategy/servers/server_rule.h"

namespace starling::dist {
namespace {

struct AsyncOptions {
  CodecChoice codec{};
  static Settings settings() { return {codec_setting(&AsyncOptions::codec)}; }
  ServerRule rule() const { return {.codec = codec}; }
};

}  // namespace

void register_strategy_async(StrategyKinds& kinds) {
  add_server_strategy<AsyncOptions>(
      kinds, "async", "parameter servers apply every worker's gradient as it comes; nobody waits for anybody");
}

}  // namespace starling::dist
