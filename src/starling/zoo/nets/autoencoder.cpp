#include "starling/zoo/nets/autoencoder.h"

#include "starling/base/error.h"
#include "starling/nn/layers.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/random.h"
#include "starling/zoo/recipes.h"

namespace starling {
namespace {

using zoo::Noise;

// Zeroes a share of the numbers while training, without rescaling the others.
class MaskingNoise : public nn::Module {
 public:
  explicit MaskingNoise(double share) : share_(share) {}

 protected:
  Tensor forward(const Tensor& x) override {
    return training() && share_ > 0 ? mul(x, bernoulli(x.shape(), 1 - share_, x.dtype())) : x;
  }

 private:
  double share_;
};

void add_noise(nn::Sequential& net, Noise noise, double amount) {
  if (noise == Noise::masking) {
    check(amount < 1, "[autoencoder] expected a share of the inputs below 1, got {}", amount);
    net.add("noise", MaskingNoise(amount));
  }
  if (noise == Noise::gaussian) net.add("noise", nn::GaussianNoise({.stddev = amount}));
}

// Encoder and decoder; `linear_code`: no sigmoid at the code.
template <class Options>
nn::Sequential dense(const Options& o, const std::vector<std::int64_t>& published, bool linear_code) {
  std::vector<std::int64_t> sizes = o.hidden.empty() ? published : o.hidden;
  sizes.insert(sizes.begin(), o.inputs);
  nn::Sequential net;
  add_noise(net, o.noise, o.amount);
  const std::size_t layers = sizes.size() - 1;
  for (std::size_t i = 1; i <= layers; ++i) {
    net.add("encode" + std::to_string(i), nn::Linear({.in = sizes[i - 1], .out = sizes[i]}));
    if (i < layers || !linear_code) net.add("encode" + std::to_string(i) + "_sigmoid", nn::Sigmoid());
  }
  for (std::size_t i = layers; i >= 1; --i) {
    net.add("decode" + std::to_string(i), nn::Linear({.in = sizes[i], .out = sizes[i - 1]}))
        .add("decode" + std::to_string(i) + "_sigmoid", nn::Sigmoid());
  }
  return net;
}

template <class Options>
void push_noise(Settings& all) {
  all.push_back(
      choice("noise", &Options::noise, {"none", "masking", "gaussian"}, "noise on the inputs while training"));
  all.push_back(setting("amount", &Options::amount, "share of the inputs zeroed, or standard deviation of the noise",
                        {.min = 0, .max = 10}));
}

template <class Options>
Settings dense_settings() {
  Settings all{
      setting("inputs", &Options::inputs, "numbers in a sample; from the data unless given", {.min = 1, .max = 1e8}),
      setting("hidden", &Options::hidden, "units from the input to the code, [500, 100]; none: as published",
              {.min = 1, .max = 1e6})};
  push_noise<Options>(all);
  return all;
}

template <class F>
zoo::Recipe reconstructs(const Shape& sample, F make) {
  return {zoo::maker(std::move(make)), {{.sample = sample, .unit = true}}, "reconstruct"};
}

}  // namespace

Settings zoo::DenseAutoencoderOptions::settings() { return dense_settings<DenseAutoencoderOptions>(); }
Settings zoo::DenoisingAutoencoderOptions::settings() { return dense_settings<DenoisingAutoencoderOptions>(); }

Settings zoo::ConvAutoencoderOptions::settings() {
  using O = ConvAutoencoderOptions;
  Settings all{channels_setting<O>(), image_setting<O>(4),
               setting("filters", &O::filters, "filters of the first layer; the second has twice as many",
                       {.min = 1, .max = 4096}),
               setting("code", &O::code, "units of a dense code between; 0: none", {.min = 0, .max = 1e6})};
  push_noise<O>(all);
  return all;
}

nn::Sequential zoo::stacked_autoencoder(const DenseAutoencoderOptions& o) {
  return dense(o, {1000, 500, 250, 30}, true);
}

nn::Sequential zoo::denoising_autoencoder(const DenoisingAutoencoderOptions& o) { return dense(o, {500}, false); }

nn::Sequential zoo::conv_autoencoder(const ConvAutoencoderOptions& o) {
  check(o.image % 4 == 0, "[conv_autoencoder] expected an image whose size 4 divides, got {}", o.image);
  const std::int64_t wide = 2 * o.filters, left = o.image / 4, code = wide * left * left;
  nn::Sequential net;
  add_noise(net, o.noise, o.amount);
  net.add("encode1", nn::Conv2d({.in = o.channels, .out = o.filters, .stride = 2, .padding = 1}))
      .add("encode1_relu", nn::Relu())
      .add("encode2", nn::Conv2d({.in = o.filters, .out = wide, .stride = 2, .padding = 1}))
      .add("encode2_relu", nn::Relu());
  if (o.code > 0) {
    net.add("flatten", nn::Flatten())
        .add("code", nn::Linear({.in = code, .out = o.code}))
        .add("spread", nn::Linear({.in = o.code, .out = code}))
        .add("spread_relu", nn::Relu())
        .add("image", nn::Reshape({.shape = {wide, left, left}}));
  }
  net.add("decode2", nn::ConvTranspose2d({.in = wide, .out = o.filters, .kernel = 2, .stride = 2}))
      .add("decode2_relu", nn::Relu())
      .add("decode1", nn::ConvTranspose2d({.in = o.filters, .out = o.channels, .kernel = 2, .stride = 2}))
      .add("decode1_sigmoid", nn::Sigmoid());
  return net;
}

void register_zoo_autoencoder(zoo::Table& table) {
  using zoo::ConvAutoencoderOptions;
  using zoo::DenoisingAutoencoderOptions;
  using zoo::DenseAutoencoderOptions;
  table.add_net<DenseAutoencoderOptions>(
      "stacked_autoencoder", "Deep autoencoder 784-1000-500-250-30 and back with sigmoid.",
      {.small = {.inputs = 40, .hidden = {24, 12, 6}}, .small_batch = 8}, [](const DenseAutoencoderOptions& o) {
        return reconstructs({o.inputs}, [o] { return zoo::stacked_autoencoder(o); });
      });
  table.add_net<DenoisingAutoencoderOptions>(
      "denoising_autoencoder", "Autoencoder 784-500-784 with sigmoid that restores masked inputs.",
      {.bench = {.noise = Noise::none}, .small = {.inputs = 40, .hidden = {20}}, .small_batch = 8},
      [](const DenoisingAutoencoderOptions& o) {
        return reconstructs({o.inputs}, [o] { return zoo::denoising_autoencoder(o); });
      });
  table.add_net<ConvAutoencoderOptions>(
      "conv_autoencoder", "Two convolutions of stride 2 and two transposed ones back.",
      {.small = {.image = 8, .filters = 4, .code = 6}}, [](const ConvAutoencoderOptions& o) {
        return reconstructs({o.channels, o.image, o.image}, [o] { return zoo::conv_autoencoder(o); });
      });
}

}  // namespace starling
