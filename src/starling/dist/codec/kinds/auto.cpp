#include "starling/dist/codec/codec_kinds.h"
#include "starling/dist/codec/factors_codec.h"

// HybComm (Poseidon): each dense layer by its gradient or by its factors, whichever takes less time in this world.
namespace starling::dist {
namespace {

struct AutoOptions {
  double gflops = 0;
  static Settings settings() {
    return {setting("gflops", &AutoOptions::gflops,
                    "speed at which a worker multiplies factors, in GFLOP/s; 0: measured", {.min = 0, .max = 1e9})};
  }
};

class Auto final : public FactorsCodec {
 public:
  explicit Auto(const AutoOptions& options) : flop_seconds_(options.gflops > 0 ? 1e-9 / options.gflops : 0) {}
  bool needs_costs() const override { return true; }
  bool by_factors(const FactorShape& shape, const WorldCosts& costs) const override {
    return costs.ranks > 1 &&
           seconds(factors_cost(shape, costs.ranks), costs) < seconds(dense_cost(shape, costs.ranks), costs);
  }

 private:
  double seconds(const ExchangeCost& cost, const WorldCosts& costs) const {
    constexpr double kWord = 4;
    const double flop_seconds = flop_seconds_ > 0 ? flop_seconds_ : costs.flop_seconds;
    return kWord * cost.words * costs.byte_seconds + cost.messages * costs.message_seconds + cost.flops * flop_seconds;
  }

  double flop_seconds_;  // 0: as measured
};

}  // namespace

void register_codec_auto(CodecKinds& kinds) {
  kinds.add<AutoOptions>("auto",
                         "dense layers by their gradient or by its factors, whichever is faster by the measured speed "
                         "of messages here; nothing is lost",
                         [](const AutoOptions& options) -> CodecPtr { return std::make_shared<Auto>(options); });
}

}  // namespace starling::dist
