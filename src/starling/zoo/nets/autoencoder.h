#pragma once

#include <vector>

#include "starling/base/config/settings.h"
#include "starling/nn/module.h"
#include "starling/nn/own_loss.h"

namespace starling::zoo {

enum class Noise : std::uint8_t { none, masking, gaussian };

struct DenseAutoencoderOptions {
  std::int64_t inputs = 784;
  std::vector<std::int64_t> hidden{};  // units from the input to the code; empty: as published
  Noise noise = Noise::none;           // added to the inputs while training
  double amount = 0.3;                 // share of inputs zeroed (masking), or standard deviation (gaussian)
  static Settings settings();
};
// Autoencoder of numbers in [0, 1], [n, inputs] → [n, inputs]: dense sigmoid layers down to a linear code and back.
// Hinton & Salakhutdinov 2006: 784-1000-500-250-30-250-500-1000-784.
nn::Sequential stacked_autoencoder(const DenseAutoencoderOptions& options = {});

struct DenoisingAutoencoderOptions {
  std::int64_t inputs = 784;
  std::vector<std::int64_t> hidden{};
  Noise noise = Noise::masking;
  double amount = 0.3;
  static Settings settings();
};
// Vincent et al. 2008: one hidden sigmoid layer of 500 units that reconstructs the input from a noisy copy.
nn::Sequential denoising_autoencoder(const DenoisingAutoencoderOptions& options = {});

struct ConvAutoencoderOptions {
  std::int64_t channels = 1;
  std::int64_t image = 28;    // must be a multiple of 4
  std::int64_t filters = 16;  // of the first layer; the second has twice as many
  std::int64_t code = 0;      // units of a dense code; 0: the feature maps of the second layer are the code
  Noise noise = Noise::none;
  double amount = 0.3;
  static Settings settings();
};
// Autoencoder of images in [0, 1]: two convolutions of stride 2, two transposed ones back.
nn::Sequential conv_autoencoder(const ConvAutoencoderOptions& options = {});

struct VaeOptions {
  std::int64_t inputs = 784;
  std::int64_t hidden = 400;
  std::int64_t code = 20;
  double beta = 1;  // weight of the KL divergence from the prior
  static Settings settings();
};
// Variational autoencoder (Kingma & Welling 2013) of numbers in [0, 1]: normal codes, Bernoulli outputs. [n, …] → the
// reconstruction [n, inputs] from the mean code. Its loss is the negative evidence lower bound per sample, from one
// random code; in nats for beta 1.
class Vae : public nn::Module, public nn::OwnLoss {
 public:
  explicit Vae(const VaeOptions& options = {});
  Outputs own_loss(std::span<const Tensor> fields) override;

  struct Code {
    Tensor mean;          // [n, code]
    Tensor log_variance;  // [n, code]
  };
  Code encode(const Tensor& x);
  Tensor decode(const Tensor& code);  // logits [n, inputs]
  Tensor sample(std::int64_t n);      // n new samples in [0, 1], [n, inputs]

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  VaeOptions options_;
  std::shared_ptr<nn::Module> hidden_;
  std::shared_ptr<nn::Module> mean_;
  std::shared_ptr<nn::Module> log_variance_;
  std::shared_ptr<nn::Module> decoder_;
};

}  // namespace starling::zoo
