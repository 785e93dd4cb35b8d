#pragma once

#include <functional>
#include <map>
#include <string>

#include "starling/nn/layers.h"

namespace starling::zoo {

// What may differ from the published network; 0 and 1 are as published, where the network has such a thing at all.
struct NetOptions {
  std::int64_t classes = 10;
  bool dropout = true;
  double width = 1;             // of every layer between input and output, as a share of the published one
  std::int64_t depth = 0;       // blocks of each stage, or layers
  std::int64_t image = 0;       // height and width of square images
  std::int64_t tokens = 0;      // the longest sequence
  std::int64_t vocabulary = 0;  // of token ids
};

// One way to make a network and to feed it.
struct Setting {
  NetOptions options;
  Shape sample;            // shape of one input
  std::int64_t batch = 1;  // samples in one
};

// What is known of a network by name: what it eats and how it is made.
struct Net {
  std::string doc;
  Shape sample;  // shape of one input
  std::int64_t classes = 10;
  std::int64_t batch = 64;  // of the benchmarks
  std::function<nn::Sequential(const NetOptions&)> make;
  Setting small;  // the same network, small enough to be checked in a second; its batch is 0 if it has none
  std::int64_t vocabulary = 0;   // inputs are token ids, i64, below this; 0: inputs are floats
  bool label_per_token = false;  // labels have the shape of the sample; else there is one a sample
};

using Table = std::map<std::string, Net>;
const Table& nets();                       // built from the files in zoo/nets
const Net& find(const std::string& name);  // throws naming the closest known

Setting published(const Net& net);  // as in the benchmarks, without dropout

// Inputs and labels of one batch, random in the default generator: normal numbers or token ids, and classes.
struct Batch {
  Tensor x;
  Tensor y;
};
Batch random_batch(const Net& net, const Setting& setting, DType dtype = DType::f32);

// Cross-entropy of logits [n, classes] with labels [n], or [n, t, classes] with [n, t]: the mean over all labels.
Tensor loss(const Tensor& logits, const Tensor& labels);

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
// Residual networks with batch norm for colour images of any size.
nn::Sequential resnet18(const NetOptions& options = {.classes = 1000});
nn::Sequential resnet34(const NetOptions& options = {.classes = 1000});
nn::Sequential resnet50(const NetOptions& options = {.classes = 1000});
// Token ids i64[n, t] to one answer: embedding, an LSTM of 128, the mean over time, a dense layer.
nn::Sequential lstm(const NetOptions& options = {.classes = 2});
// Token ids i64[n, t] to logits [n, t, vocabulary] of the next: a causal transformer, 6 layers of width 384.
nn::Sequential gpt(const NetOptions& options = {});

}  // namespace starling::zoo
