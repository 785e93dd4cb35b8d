#pragma once

#include "starling/base/config/settings.h"
#include "starling/nn/module.h"

namespace starling::zoo {

struct RecurrentOptions {
  std::int64_t classes = 2;
  std::int64_t vocabulary = 10'000;
  std::int64_t tokens = 100;
  std::int64_t width = 128;  // of the embedding and of the hidden state
  std::int64_t layers = 1;
  double dropout = 0;   // between layers and before the classifier
  bool sparse = false;  // row-sparse gradient of the embedding
  static Settings settings();
};
// Classifiers of sequences, token ids i64[n, t] → [n, classes]: embedding, LSTM or GRU, mean over time, dense layer.
nn::Sequential lstm(const RecurrentOptions& options = {});
nn::Sequential gru(const RecurrentOptions& options = {});

struct RecurrentLmOptions {
  std::int64_t vocabulary = 65;
  std::int64_t tokens = 128;
  std::int64_t width = 256;
  std::int64_t layers = 2;
  double dropout = 0;
  static Settings settings();
};
// Language models, token ids i64[n, t] → logits [n, t, vocabulary] of the next token: embedding, LSTM or GRU, dense
// layer.
nn::Sequential lstm_lm(const RecurrentLmOptions& options = {});
nn::Sequential gru_lm(const RecurrentLmOptions& options = {});

}  // namespace starling::zoo
