#include "starling/dist/codec/codec_kinds.h"
#include "starling/dist/codec/factors_codec.h"

// Sufficient factors (Project Adam, Poseidon): the gradient of a dense layer is Σ δ·aᵀ over the rows of the batch.
namespace starling::dist {
namespace {

class Factors final : public FactorsCodec {
 public:
  bool by_factors(const FactorShape& /*shape*/, const WorldCosts& /*costs*/) const override { return true; }
};

}  // namespace

void register_codec_factors(CodecKinds& kinds) {
  kinds.add<NoSettings>(
      "factors",
      "dense layers send the two factors of their gradient, and every worker multiplies those of all; "
      "other gradients travel as they are",
      [](const NoSettings&) -> CodecPtr { return std::make_shared<Factors>(); });
}

}  // namespace starling::dist
