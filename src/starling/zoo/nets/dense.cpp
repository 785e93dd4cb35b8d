#include "starling/zoo/nets/dense.h"

#include "starling/nn/layers.h"
#include "starling/zoo/recipes.h"

namespace starling {
namespace {

using zoo::DenseOptions;
using Sizes = std::vector<std::int64_t>;

// Dense layers with an activation between them.
template <class Activation, class Options>
nn::Sequential stack(const Options& o, const Sizes& published) {
  Sizes sizes = o.hidden.empty() ? published : o.hidden;
  sizes.insert(sizes.begin(), o.inputs);
  nn::Sequential net;
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    const std::string number = std::to_string(i + 1);
    net.add("fc" + number, nn::Linear({.in = sizes[i], .out = sizes[i + 1]})).add("act" + number, Activation());
    if (o.dropout > 0) net.add("drop" + number, nn::Dropout(o.dropout));
  }
  net.add("fc" + std::to_string(sizes.size()), nn::Linear({.in = sizes.back(), .out = o.classes}));
  return net;
}

template <class Options>
Settings dense_settings() {
  return {
      zoo::classes_setting<Options>(),
      setting("inputs", &Options::inputs, "numbers in a sample; from the data unless given", {.min = 1, .max = 1e8}),
      setting("hidden", &Options::hidden, "units of the layers between, [512, 512]; none: as published",
              {.min = 1, .max = 1e6}),
      zoo::dropout_setting<Options>("share of the hidden units dropped while training")};
}

template <class Options>
void add(zoo::Table& table, const char* name, const char* doc, const zoo::Sizes<Options>& sizes,
         nn::Sequential (*make)(const Options&)) {
  table.add_net<Options>(name, doc, sizes, [make](const Options& o) {
    return zoo::classifier({.sample = {o.inputs}}, o.classes, [o, make] { return make(o); });
  });
}

}  // namespace

Settings zoo::DenseOptions::settings() { return dense_settings<DenseOptions>(); }
Settings zoo::SpeechOptions::settings() { return dense_settings<SpeechOptions>(); }

nn::Sequential zoo::mlp(const DenseOptions& o) { return stack<nn::Relu>(o, {512, 512}); }
nn::Sequential zoo::sae_small(const DenseOptions& o) { return stack<nn::Sigmoid>(o, {400, 200, 100}); }
nn::Sequential zoo::sae_big(const DenseOptions& o) { return stack<nn::Sigmoid>(o, {800, 1000, 2000}); }
nn::Sequential zoo::dbn(const DenseOptions& o) { return stack<nn::Sigmoid>(o, {500, 500, 2000}); }
nn::Sequential zoo::speech(const SpeechOptions& o) { return stack<nn::Sigmoid>(o, {2560, 2560, 2560, 2560}); }

void register_zoo_dense(zoo::Table& table) {
  const zoo::Sizes<DenseOptions> sizes{.small_batch = 16};
  add(table, "mlp", "Dense 784-512-512-10 with relu.", sizes, zoo::mlp);
  add(table, "sae_small", "Dense 784-400-200-100-10 with sigmoid.", sizes, zoo::sae_small);
  add(table, "sae_big", "Dense 784-800-1000-2000-10 with sigmoid.", sizes, zoo::sae_big);
  add(table, "dbn", "A deep belief network as it is fine-tuned: dense 784-500-500-2000-10 with sigmoid.",
      {.small = {.hidden = {50, 50, 200}}, .small_batch = 16}, zoo::dbn);
  add(table, "speech", "DistBelief's acoustic model: dense 440-2560-2560-2560-2560-8192 with sigmoid.",
      {.batch = 64, .small = {.classes = 40, .inputs = 44, .hidden = {64, 64, 64, 64}}, .small_batch = 16},
      zoo::speech);
}

}  // namespace starling
