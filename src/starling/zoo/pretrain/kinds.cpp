#include "starling/zoo/pretrain/kinds.h"

#include "starling/zoo/pretrain/autoencoder.h"
#include "starling/zoo/pretrain/rbm.h"

namespace starling::zoo {

const PretrainKinds& pretrain_kinds() {
  static const PretrainKinds kinds = [] {
    PretrainKinds made;
    made.add<RbmPretrainOptions>(
        "rbm", "a deep belief network: restricted Boltzmann machines one on another, by contrastive divergence",
        [](const RbmPretrainOptions& o) -> Pretrainer {
          return [o](nn::Module& net, const std::shared_ptr<const Dataset>& data, PretrainListener listener) {
            return pretrain_rbm(net, data, o, std::move(listener));
          };
        });
    made.add<AutoencoderPretrainOptions>(
        "autoencoder", "a stack of denoising autoencoders", [](const AutoencoderPretrainOptions& o) -> Pretrainer {
          return [o](nn::Module& net, const std::shared_ptr<const Dataset>& data, PretrainListener listener) {
            return pretrain_autoencoder(net, data, o, std::move(listener));
          };
        });
    return made;
  }();
  return kinds;
}

}  // namespace starling::zoo
