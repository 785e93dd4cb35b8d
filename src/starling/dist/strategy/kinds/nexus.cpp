#include "starling/dist/strategy/servers/server_rule.h"

namespace starling::dist {
namespace {

// Nexus: layers have rhythms of their own, and what a worker does not send it adds up.
struct NexusOptions {
  std::int64_t every = 1;
  std::vector<LayerRhythm> layers{};
  CodecChoice codec{};
  static Settings settings() {
    using O = NexusOptions;
    return {setting("every", &O::every,
                    "steps whose gradients are added up before they are pushed, and weights fetched; of those that "
                    "layers does not name",
                    {.min = 1, .max = kMostKept}),
            setting("layers", &O::layers, "weights with rhythms of their own, [{name: \"fc*.weight\", every: 4}]"),
            codec_setting(&O::codec)};
  }
  ServerRule rule() const { return {.n_push = every, .n_fetch = every, .layers = layers, .codec = codec}; }
};

}  // namespace

void register_strategy_nexus(StrategyKinds& kinds) {
  add_server_strategy<NexusOptions>(
      kinds, "nexus", "parameter servers, to which each layer's gradients are added up and sent at its own rhythm");
}

}  // namespace starling::dist
