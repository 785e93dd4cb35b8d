#pragma once

#include <vector>

#include "starling/base/config/settings.h"
#include "starling/nn/module.h"

namespace starling::zoo {

struct DenseOptions {
  std::int64_t classes = 10;
  std::int64_t inputs = 784;
  std::vector<std::int64_t> hidden{};  // units of the hidden layers; empty: as published
  double dropout = 0;                  // after every hidden layer
  static Settings settings();
};
// 784-512-512-classes with relu.
nn::Sequential mlp(const DenseOptions& options = {});
// Dense stacks of sigmoid layers, as in fine-tuned stacked autoencoders: 784-400-200-100-classes and
// 784-800-1000-2000-classes.
nn::Sequential sae_small(const DenseOptions& options = {});
nn::Sequential sae_big(const DenseOptions& options = {});
// Deep belief network as fine-tuned by Hinton & Salakhutdinov 2006: 784-500-500-2000-classes with sigmoid.
nn::Sequential dbn(const DenseOptions& options = {});

struct SpeechOptions {
  std::int64_t classes = 8192;  // HMM states of the acoustic model
  std::int64_t inputs = 440;    // 11 frames of 40 log-energies
  std::vector<std::int64_t> hidden{};
  double dropout = 0;
  static Settings settings();
};
// DistBelief's acoustic model (Dean et al. 2012): four sigmoid layers of 2560, softmax over 8192; 42 million
// parameters.
nn::Sequential speech(const SpeechOptions& options = {});

}  // namespace starling::zoo
