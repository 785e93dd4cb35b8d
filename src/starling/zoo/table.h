#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "starling/base/kinds.h"
#include "starling/nn/module.h"

namespace starling::zoo {

// One tensor of a batch, as a network eats it or is judged by it.
struct Field {
  Shape sample{};          // without the batch axis
  std::int64_t below = 0;  // i64 in [0, below): token ids, classes; 0: floats
  bool unit = false;       // floats in [0, 1], such as pixels; else around 0
};

// A network with its options chosen. A recipe is cheap; make() allocates the parameters, random in the default
// generator.
struct Recipe {
  std::function<std::shared_ptr<nn::Module>()> make{};
  std::vector<Field> fields{};  // of a batch: the input, then what the objective compares with
  // What it is trained for when nobody says otherwise, by the names of train/objective.h. A network that implements
  // nn::OwnLoss gives its loss itself.
  std::string objective = "classify";
};
using Net = Chosen<Recipe>;

// How large a network is where it is measured and where it is checked.
template <class Options>
struct Sizes {
  Options bench{};  // as published, without dropout
  std::int64_t batch = 64;
  Options small{};  // the same network, small enough to be checked in a second
  std::int64_t small_batch = 4;
};
struct Sized {
  Net net;
  std::int64_t batch = 1;
};

// Networks by name, each with options of its own: filled once from the files in zoo/nets, then only read.
class Table : public Kinds<Recipe> {
 public:
  // `recipe` is called with `const Options&`.
  template <HasSettings Options, class F>
  void add_net(const std::string& name, std::string doc, const Sizes<Options>& sizes, F recipe) {
    add<Options>(name, std::move(doc), std::move(recipe));
    sizes_[name] = {std::make_shared<const Options>(sizes.bench), sizes.batch,
                    std::make_shared<const Options>(sizes.small), sizes.small_batch};
  }

  Sized bench(const std::string& name) const;  // both throw naming the closest known
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

// A network whatever its options, with some of them changed by key: with(nets().by_name("resnet18"), {{"classes",
// 10}}). Throws on a key that it does not have and on a wrong value.
Net with(const Net& net, const nlohmann::json& options);
bool has_option(const Net& net, const std::string& key);

// What a data set says about the networks that can learn from it; 0 and empty: nothing.
struct DataFacts {
  std::int64_t classes = 0;
  std::int64_t vocabulary = 0;
  Shape sample{};  // of the input: [features], [tokens], [channels, height, width]
  std::int64_t target_vocabulary = 0;
  Shape target{};  // of sequences that are to be written: [tokens]
};
// The options that a user leaves open, taken from the data where the network has them: classes, vocabulary, tokens,
// channels, image (height and width), inputs, target_vocabulary, target_tokens. `given` are the keys that the user set.
Net fitted(const Net& net, const DataFacts& data, std::span<const std::string> given = {});

// A random batch for a recipe in the default generator: normal or uniform numbers, ids, classes.
TensorList random_batch(const Recipe& recipe, std::int64_t batch, DType dtype = DType::f32);

// Cross-entropy of logits [n, classes] with labels [n], or [n, t, classes] with [n, t]: the mean over all labels.
Tensor loss(const Tensor& logits, const Tensor& labels);
// What a network is trained for by its recipe: its own loss, how well it reconstructs its input, or the cross-entropy.
Tensor loss(const Recipe& recipe, nn::Module& net, std::span<const Tensor> fields);

}  // namespace starling::zoo
