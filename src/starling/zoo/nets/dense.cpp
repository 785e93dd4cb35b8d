#include <vector>

#include "starling/zoo/zoo.h"

namespace starling {
namespace {

// Dense layers with an activation between them.
template <class Activation>
nn::Sequential stack(const std::vector<std::int64_t>& sizes) {
  nn::Sequential net;
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    const std::string number = std::to_string(i + 1);
    net.add("fc" + number, nn::Linear({.in = sizes[i], .out = sizes[i + 1]}));
    if (i + 2 < sizes.size()) net.add("act" + number, Activation());
  }
  return net;
}

}  // namespace

nn::Sequential zoo::mlp(const NetOptions& o) { return stack<nn::Relu>({784, 512, 512, o.classes}); }
nn::Sequential zoo::sae_small(const NetOptions& o) { return stack<nn::Sigmoid>({784, 400, 200, 100, o.classes}); }
nn::Sequential zoo::sae_big(const NetOptions& o) { return stack<nn::Sigmoid>({784, 800, 1000, 2000, o.classes}); }

void register_zoo_dense(zoo::Table& table) {
  const Shape pixels{784};
  const zoo::Setting small{{}, pixels, 16};
  table["mlp"] = {
      "Dense 784-512-512-10 with relu.", pixels, 10, 64, [](const zoo::NetOptions& o) { return zoo::mlp(o); }, small};
  table["sae_small"] = {"Dense 784-400-200-100-10 with sigmoid.",
                        pixels,
                        10,
                        64,
                        [](const zoo::NetOptions& o) { return zoo::sae_small(o); },
                        small};
  table["sae_big"] = {"Dense 784-800-1000-2000-10 with sigmoid.",
                      pixels,
                      10,
                      64,
                      [](const zoo::NetOptions& o) { return zoo::sae_big(o); },
                      small};
}

}  // namespace starling
