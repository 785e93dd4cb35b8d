#include "starling/dist/strategy/servers/server_rule.h"

namespace starling::dist {
namespace {

struct SyncServerOptions {
  std::int64_t backups = 0;
  CodecChoice codec{};
  static Settings settings() {
    return {setting("backups", &SyncServerOptions::backups,
                    "workers that an update need not wait for; what comes later is dropped and counted",
                    {.min = 0, .max = 255}),
            codec_setting(&SyncServerOptions::codec)};
  }
  ServerRule rule() const {
    return {.bound = 0, .merge = ps::Merge::mean, .backups = backups, .codec = codec, .in_turn = true};
  }
};

}  // namespace

void register_strategy_sync_server(StrategyKinds& kinds) {
  add_server_strategy<SyncServerOptions>(
      kinds, "sync_server", "parameter servers that take one step with the mean of all workers' gradients");
}

}  // namespace starling::dist
