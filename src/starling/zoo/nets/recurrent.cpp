#include "starling/zoo/nets/recurrent.h"

#include "starling/nn/layers.h"
#include "starling/nn/sequence.h"
#include "starling/zoo/recipes.h"

namespace starling {
namespace {

using zoo::RecurrentLmOptions;
using zoo::RecurrentOptions;

// Ids [n, t] → the outputs of the last recurrent layer at every step, [t, n, width].
template <class Layer, class Options>
nn::Sequential walk(const char* name, const Options& o, bool sparse = false) {
  nn::Sequential net;
  net.add("time_first", nn::TimeFirst())
      .add("embed", nn::Embedding({.vocabulary = o.vocabulary, .width = o.width, .sparse = sparse}))
      .add(name, Layer({.in = o.width, .hidden = o.width, .layers = o.layers, .dropout = o.dropout}));
  if (o.dropout > 0) net.add("drop", nn::Dropout(o.dropout));
  return net;
}

nn::Sequential answer(nn::Sequential net, const RecurrentOptions& o) {
  net.add("mean", nn::MeanOverTime()).add("fc", nn::Linear({.in = o.width, .out = o.classes}));
  return net;
}

nn::Sequential predict(nn::Sequential net, const RecurrentLmOptions& o) {
  net.add("batch_first", nn::TimeFirst()).add("head", nn::Linear({.in = o.width, .out = o.vocabulary}));
  return net;
}

template <class Options>
void add_common(Settings& all) {
  all.push_back(zoo::vocabulary_setting<Options>());
  all.push_back(zoo::tokens_setting<Options>());
  all.push_back(setting("width", &Options::width, "units of the embedding and of the state", {.min = 1, .max = 65536}));
  all.push_back(setting("layers", &Options::layers, "recurrent layers, one on another", {.min = 1, .max = 100}));
  all.push_back(zoo::dropout_setting<Options>("share of each layer's outputs dropped while training"));
}

void add_classifier(zoo::Table& table, const char* name, const char* doc,
                    nn::Sequential (*make)(const RecurrentOptions&)) {
  table.add_net<RecurrentOptions>(name, doc, {.batch = 16, .small = {.vocabulary = 50, .tokens = 20, .width = 32}},
                                  [make](const RecurrentOptions& o) {
                                    return zoo::classifier({.sample = {o.tokens}, .below = o.vocabulary}, o.classes,
                                                           [o, make] { return make(o); });
                                  });
}

void add_model(zoo::Table& table, const char* name, const char* doc,
               nn::Sequential (*make)(const RecurrentLmOptions&)) {
  table.add_net<RecurrentLmOptions>(name, doc, {.batch = 32, .small = {.vocabulary = 30, .tokens = 12, .width = 24}},
                                    [make](const RecurrentLmOptions& o) {
                                      return zoo::language_model(o.vocabulary, o.tokens, [o, make] { return make(o); });
                                    });
}

}  // namespace

Settings zoo::RecurrentOptions::settings() {
  Settings all{classes_setting<RecurrentOptions>()};
  add_common<RecurrentOptions>(all);
  all.push_back(
      setting("sparse", &RecurrentOptions::sparse,
              "gradients of the embedding are the rows that a batch reads, and workers exchange these alone"));
  return all;
}

Settings zoo::RecurrentLmOptions::settings() {
  Settings all;
  add_common<RecurrentLmOptions>(all);
  return all;
}

nn::Sequential zoo::lstm(const RecurrentOptions& o) { return answer(walk<nn::Lstm>("lstm", o, o.sparse), o); }
nn::Sequential zoo::gru(const RecurrentOptions& o) { return answer(walk<nn::Gru>("gru", o, o.sparse), o); }
nn::Sequential zoo::lstm_lm(const RecurrentLmOptions& o) { return predict(walk<nn::Lstm>("lstm", o), o); }
nn::Sequential zoo::gru_lm(const RecurrentLmOptions& o) { return predict(walk<nn::Gru>("gru", o), o); }

void register_zoo_recurrent(zoo::Table& table) {
  add_classifier(table, "lstm", "Embedding of 10000 words, LSTM 128 over 100 steps, mean over time, dense.", zoo::lstm);
  add_classifier(table, "gru", "Embedding of 10000 words, GRU 128 over 100 steps, mean over time, dense.", zoo::gru);
  add_model(table, "lstm_lm", "Language model: embedding, two LSTM layers of 256, dense; 128 tokens out of 65.",
            zoo::lstm_lm);
  add_model(table, "gru_lm", "Language model: embedding, two GRU layers of 256, dense; 128 tokens out of 65.",
            zoo::gru_lm);
}

}  // namespace starling
