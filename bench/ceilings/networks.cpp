#include "networks.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

namespace starling::ceilings {
namespace {

struct Image {
  std::int64_t channels, height, width;
};

// Describes a network by following one image (or row) through it.
class Net {
 public:
  Net(std::vector<Entry>& entries, std::string name, std::int64_t batch, Image input)
      : entries_(entries), name_(std::move(name)), batch_(batch), at_(input) {}

  Image at() const { return at_; }
  void go_back_to(Image image) { at_ = image; }

  struct Window {
    std::int64_t kernel, stride = 1, pad = 0;
  };

  Net& conv(std::int64_t out, Window w) {
    Layer layer = windowed(Kind::conv, w);
    layer.out = out;
    layer.first = std::exchange(first_, false);
    add(layer);
    at_ = {out, layer.out_height(), layer.out_width()};
    return *this;
  }
  Net& max_pool(Window w) { return pool(Kind::max_pool, w); }
  Net& average_pool(Window w) { return pool(Kind::average_pool, w); }
  Net& batch_norm() {
    add(windowed(Kind::batch_norm, {1}));
    return *this;
  }
  Net& apply(Activation activation) {
    Layer layer = windowed(Kind::eltwise, {1});
    layer.activation = activation;
    add(layer);
    return *this;
  }
  Net& dense(std::int64_t out) {
    const std::int64_t in = at_.channels * at_.height * at_.width;
    add({.kind = Kind::dense, .batch = batch_, .in = in, .out = out, .first = std::exchange(first_, false)});
    at_ = {out, 1, 1};
    return *this;
  }
  Net& layer_norm() { return other({.kind = Kind::layer_norm, .batch = batch_, .in = at_.channels}); }
  Net& softmax() { return other({.kind = Kind::softmax, .batch = batch_, .in = at_.channels}); }
  // A layer that leaves the followed row as it is.
  Net& other(const Layer& layer) {
    first_ = false;
    add(layer);
    return *this;
  }

 private:
  Layer windowed(Kind kind, Window w) const {
    return {.kind = kind,
            .batch = batch_,
            .in = at_.channels,
            .height = at_.height,
            .width = at_.width,
            .kernel = w.kernel,
            .stride = w.stride,
            .pad = w.pad};
  }
  Net& pool(Kind kind, Window w) {
    const Layer layer = windowed(kind, w);
    add(layer);
    at_ = {layer.in, layer.out_height(), layer.out_width()};
    return *this;
  }
  void add(const Layer& layer) {
    const auto same = [&](const Entry& e) { return e.network == name_ && e.layer == layer; };
    const auto found = std::find_if(entries_.begin(), entries_.end(), same);
    if (found != entries_.end()) {
      ++found->count;
    } else {
      entries_.push_back({name_, layer, 1});
    }
  }

  std::vector<Entry>& entries_;
  std::string name_;
  std::int64_t batch_;
  Image at_;
  bool first_ = true;
};

using enum Activation;

void lenet(std::vector<Entry>& to) {
  Net(to, "lenet", 64, {1, 28, 28})
      .conv(20, {5})
      .max_pool({2, 2})
      .apply(tanh)
      .conv(50, {5})
      .max_pool({2, 2})
      .apply(tanh)
      .dense(500)
      .apply(relu)
      .dense(10)
      .softmax();
}

void alexnet(std::vector<Entry>& to) {
  Net(to, "alexnet", 64, {3, 224, 224})
      .conv(96, {11, 4, 2})
      .apply(relu)
      .max_pool({3, 2})
      .conv(256, {5, 1, 2})
      .apply(relu)
      .max_pool({3, 2})
      .conv(384, {3, 1, 1})
      .apply(relu)
      .conv(384, {3, 1, 1})
      .apply(relu)
      .conv(256, {3, 1, 1})
      .apply(relu)
      .max_pool({3, 2})
      .dense(4096)
      .apply(relu)
      .dense(4096)
      .apply(relu)
      .dense(1000)
      .softmax();
}

void alexnet_owt(std::vector<Entry>& to) {
  Net(to, "alexnet_owt", 128, {3, 224, 224})
      .conv(64, {11, 4, 2})
      .apply(relu)
      .max_pool({3, 2})
      .conv(192, {5, 1, 2})
      .apply(relu)
      .max_pool({3, 2})
      .conv(384, {3, 1, 1})
      .apply(relu)
      .conv(256, {3, 1, 1})
      .apply(relu)
      .conv(256, {3, 1, 1})
      .apply(relu)
      .max_pool({3, 2})
      .dense(4096)
      .apply(relu)
      .dense(4096)
      .apply(relu)
      .dense(1000)
      .softmax();
}

void perceptron(std::vector<Entry>& to, const char* name, std::initializer_list<std::int64_t> hidden,
                Activation between) {
  Net net(to, name, 64, {784, 1, 1});
  for (const std::int64_t width : hidden) net.dense(width).apply(between);
  net.dense(10).softmax();
}

void lstm(std::vector<Entry>& to) {
  Net(to, "lstm", 16, {128, 1, 1})
      .other({.kind = Kind::lstm, .batch = 16, .in = 128, .out = 128, .steps = 100})
      .dense(2)
      .softmax();
}

// The shortcut of a residual block: a 1×1 convolution where the shape changes.
void shortcut(Net& net, Image from, std::int64_t stride) {
  const Image to = net.at();
  if (from.channels == to.channels && stride == 1) return;
  net.go_back_to(from);
  net.conv(to.channels, {1, stride}).batch_norm();
}

void basic_block(Net& net, std::int64_t width, std::int64_t stride) {
  const Image from = net.at();
  net.conv(width, {3, stride, 1}).batch_norm().apply(relu).conv(width, {3, 1, 1}).batch_norm();
  shortcut(net, from, stride);
  net.apply(relu);
}

void bottleneck(Net& net, std::int64_t width, std::int64_t stride) {
  const Image from = net.at();
  net.conv(width, {1}).batch_norm().apply(relu).conv(width, {3, stride, 1}).batch_norm().apply(relu);
  net.conv(4 * width, {1}).batch_norm();
  shortcut(net, from, stride);
  net.apply(relu);
}

template <class Block>
void resnet(std::vector<Entry>& to, const char* name, std::initializer_list<int> depths, Block block) {
  Net net(to, name, 16, {3, 224, 224});
  net.conv(64, {7, 2, 3}).batch_norm().apply(relu).max_pool({3, 2, 1});
  std::int64_t width = 64;
  for (const int depth : depths) {
    for (int i = 0; i < depth; ++i) block(net, width, i == 0 && width > 64 ? 2 : 1);
    width *= 2;
  }
  net.average_pool({7}).dense(1000).softmax();
}

void gpt(std::vector<Entry>& to) {
  const std::int64_t sequences = 8, tokens = 256, width = 384, heads = 6, head = width / heads;
  Net net(to, "gpt", sequences * tokens, {width, 1, 1});
  const Layer scores{.kind = Kind::product,
                     .batch = sequences * heads,
                     .in = head,
                     .out = tokens,
                     .height = tokens,
                     .transposed = true};
  const Layer mix{.kind = Kind::product, .batch = sequences * heads, .in = tokens, .out = head, .height = tokens};
  const Layer weigh{.kind = Kind::softmax, .batch = sequences * heads * tokens, .in = tokens};
  for (int i = 0; i < 6; ++i) {
    net.layer_norm().dense(3 * width).other(scores).other(weigh).other(mix);
    net.go_back_to({width, 1, 1});
    net.dense(width).layer_norm().dense(4 * width).apply(gelu).dense(width);
  }
  net.layer_norm().dense(65).softmax();
}

}  // namespace

std::vector<Entry> networks() {
  std::vector<Entry> to;
  lenet(to);
  alexnet(to);
  alexnet_owt(to);
  perceptron(to, "sae_small", {400, 200, 100}, sigmoid);
  perceptron(to, "sae_big", {800, 1000, 2000}, sigmoid);
  lstm(to);
  perceptron(to, "mlp", {512, 512}, relu);
  resnet(to, "resnet18", {2, 2, 2, 2}, basic_block);
  resnet(to, "resnet50", {3, 4, 6, 3}, bottleneck);
  gpt(to);
  return to;
}

}  // namespace starling::ceilings
