#include "starling/dist/strategy/servers/server_rule.h"

namespace starling::dist {
namespace {

// Stale-synchronous parallelism (Petuum): a read at clock c has all updates of clocks before c - staleness.
struct SspOptions {
  std::int64_t staleness = 3;
  CodecChoice codec{};
  static Settings settings() {
    return {setting("staleness", &SspOptions::staleness,
                    "steps that a worker may be ahead of the slowest when it reads the weights; 0: bulk-synchronous",
                    {.min = 0, .max = 1'000'000}),
            codec_setting(&SspOptions::codec)};
  }
  ServerRule rule() const { return {.bound = staleness, .codec = codec, .in_turn = staleness == 0}; }
};

}  // namespace

void register_strategy_ssp(StrategyKinds& kinds) {
  add_server_strategy<SspOptions>(
      kinds, "ssp", "parameter servers whose weights a worker reads at most `staleness` steps ahead of the slowest");
}

}  // namespace starling::dist
