#include "starling/nn/sequence.h"
#include "starling/zoo/width.h"

namespace starling {

nn::Sequential zoo::lstm(const NetOptions& options) {
  const std::int64_t width = scaled(128, options);
  nn::Sequential net;
  net.add("time_first", nn::TimeFirst())
      .add("embed", nn::Embedding({.vocabulary = or_published(options.vocabulary, 10'000), .width = width}))
      .add("lstm", nn::Lstm({.in = width, .hidden = width}))
      .add("mean", nn::MeanOverTime())
      .add("fc", nn::Linear({.in = width, .out = options.classes}));
  return net;
}

void register_zoo_lstm(zoo::Table& table) {
  table["lstm"] = {.doc = "Embedding of 10000 words, LSTM 128 over 100 steps, mean over time, dense.",
                   .sample = {100},
                   .classes = 2,
                   .batch = 16,
                   .make = [](const zoo::NetOptions& o) { return zoo::lstm(o); },
                   .small = {{.classes = 2, .width = 0.25, .vocabulary = 50}, {20}, 4},
                   .vocabulary = 10'000};
}

}  // namespace starling
