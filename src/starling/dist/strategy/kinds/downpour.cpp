#include "starling/dist/strategy/servers/server_rule.h"

namespace starling::dist {
namespace {

// Downpour SGD (DistBelief).
struct DownpourOptions {
  std::int64_t n_push = 1;
  std::int64_t n_fetch = 1;
  std::int64_t warm_start = 0;
  CodecChoice codec{};
  static Settings settings() {
    using O = DownpourOptions;
    return {setting("n_push", &O::n_push, "steps whose gradients are added up before they are pushed",
                    {.min = 1, .max = kMostKept}),
            setting("n_fetch", &O::n_fetch,
                    "steps between two fetches of the weights; in between a worker descends by itself",
                    {.min = 1, .max = 1'000'000}),
            setting("warm_start", &O::warm_start, "steps of one worker alone before the others begin",
                    {.min = 0, .max = 1'000'000'000}),
            codec_setting(&O::codec)};
  }
  ServerRule rule() const { return {.n_push = n_push, .n_fetch = n_fetch, .codec = codec, .warm = warm_start}; }
};

}  // namespace

void register_strategy_downpour(StrategyKinds& kinds) {
  add_server_strategy<DownpourOptions>(
      kinds, "downpour", "parameter servers, pushed to and fetched from every so many steps of each worker's own");
}

}  // namespace starling::dist
