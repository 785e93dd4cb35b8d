#pragma once

#include <functional>
#include <map>
#include <string>

#include "starling/nn/layers.h"

namespace starling::zoo {

struct NetOptions {
  std::int64_t classes = 10;
  bool dropout = true;  // where the network has it
};

// What is known of a network by name: what it eats and how it is made.
struct Net {
  std::string doc;
  Shape sample;  // shape of one input
  std::int64_t classes = 10;
  std::int64_t batch = 64;  // of the benchmarks
  std::function<nn::Sequential(const NetOptions&)> make;
};

using Table = std::map<std::string, Net>;
const Table& nets();                       // built from the files in zoo/nets
const Net& find(const std::string& name);  // throws naming the closest known

// LeNet for 28 × 28 images with one channel.
nn::Sequential lenet(const NetOptions& options = {});
// 784-512-512-classes with relu.
nn::Sequential mlp(const NetOptions& options = {});
// Dense stacks of sigmoids, as autoencoders are fine-tuned: 784-400-200-100-classes and 784-800-1000-2000-classes.
nn::Sequential sae_small(const NetOptions& options = {});
nn::Sequential sae_big(const NetOptions& options = {});
// AlexNet with 96 and with 64 filters ("one weird trick") in the first layer, for 224 × 224 colour images.
nn::Sequential alexnet(const NetOptions& options = {.classes = 1000});
nn::Sequential alexnet_owt(const NetOptions& options = {.classes = 1000});

}  // namespace starling::zoo
