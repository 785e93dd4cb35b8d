#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "starling/base/config/kinds.h"
#include "starling/nn/module.h"

namespace starling::zoo {

// One tensor of a batch: an input of the network or a target of the loss.
struct Field {
  Shape sample{};          // without the batch axis
  std::int64_t below = 0;  // i64 in [0, below): token ids, classes; 0: floats
  bool unit = false;       // floats in [0, 1], such as pixels; else centred on 0
};

// Network with its options chosen. A recipe is cheap; make() allocates the parameters, initialised by the default
// generator.
struct Recipe {
  std::function<std::shared_ptr<nn::Module>()> make{};
  std::vector<Field> fields{};  // of a batch: the input, then the targets
  // Default training objective, by the names of train/objective.h. A network that implements nn::OwnLoss computes its
  // loss itself.
  std::string objective = "classify";
};
using Net = Chosen<Recipe>;

// Options and batch sizes of a network for benchmarks and for tests.
template <class Options>
struct Sizes {
  Options bench{};  // as published, without dropout
  std::int64_t batch = 64;
  Options small{};  // same network, small enough for a test of one second
  std::int64_t small_batch = 4;
};
struct Sized {
  Net net;
  std::int64_t batch = 1;
};

// Networks by name, each with its own options: filled once from the files in zoo/nets, then read-only.
class Table : public Kinds<Recipe> {
 public:
  // Adds a network; `recipe` is called with `const Options&`.
  template <HasSettings Options, class F>
  void add_net(const std::string& name, std::string doc, const Sizes<Options>& sizes, F recipe) {
    add<Options>(name, std::move(doc), std::move(recipe));
    sizes_[name] = {std::make_shared<const Options>(sizes.bench), sizes.batch,
                    std::make_shared<const Options>(sizes.small), sizes.small_batch};
  }

  Sized bench(const std::string& name) const;  // bench and small throw on an unknown name, naming the closest
  Sized small(const std::string& name) const;

 private:
  struct Known {
    std::shared_ptr<const void> bench;
    std::int64_t batch = 0;
    std::shared_ptr<const void> small;
    std::int64_t small_batch = 0;
  };
  std::map<std::string, Known> sizes_;
};
const Table& nets();

// Copy of a network with some options changed by key: with(nets().by_name("resnet18"), {{"classes", 10}}). Throws on an
// unknown key and on a wrong value.
Net with(const Net& net, const nlohmann::json& options);
bool has_option(const Net& net, const std::string& key);

// Properties of a data set that a network's options can follow; 0 or empty: unknown.
struct DataFacts {
  std::int64_t classes = 0;
  std::int64_t vocabulary = 0;
  Shape sample{};  // of the input: [features], [tokens], [channels, height, width]
  std::int64_t target_vocabulary = 0;
  Shape target{};  // target sequences: [tokens]
};
// Sets the options that the user left open from the data, where the network has them: classes, vocabulary, tokens,
// channels, image (height and width), inputs, target_vocabulary, target_tokens. `given` are the keys that the user set.
Net fitted(const Net& net, const DataFacts& data, std::span<const std::string> given = {});

// Random batch for a recipe from the default generator: normal or uniform numbers, ids, classes.
TensorList random_batch(const Recipe& recipe, std::int64_t batch, DType dtype = DType::f32);

// Cross-entropy of logits [n, classes] with labels [n], or [n, t, classes] with [n, t]: the mean over all labels.
Tensor loss(const Tensor& logits, const Tensor& labels);
// Training loss of a recipe: the network's own, the reconstruction error of its input, or the cross-entropy.
Tensor loss(const Recipe& recipe, nn::Module& net, std::span<const Tensor> fields);

}  // namespace starling::zoo
