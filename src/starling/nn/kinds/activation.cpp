#include "starling/nn/activation.h"

#include "starling/nn/layer_kinds.h"
#include "starling/nn/setting_types.h"

namespace starling {
namespace nn {

Settings GeluOptions::settings() {
  return {setting("tanh", &GeluOptions::tanh, "approximate the normal distribution by a tanh")};
}
Settings LeakyReluOptions::settings() { return {setting("slope", &LeakyReluOptions::slope, "below 0")}; }
Settings EluOptions::settings() { return {setting("alpha", &EluOptions::alpha, "minus the lowest value")}; }
Settings HardtanhOptions::settings() {
  return {setting("min", &HardtanhOptions::min, "the lowest value"),
          setting("max", &HardtanhOptions::max, "the highest value")};
}
Settings AxisOptions::settings() {
  return {setting("axis", &AxisOptions::axis, "counted with the batch as axis 0; negative: from the last")};
}

// One slope per channel is requested by `channels: 0`, since the number of channels is inferred.
Settings PreluOptions::settings() {
  return {setting("channels", &PreluOptions::channels, "1: one slope for all; 0: one for every channel", {.min = 0}),
          setting("slope", &PreluOptions::slope, "what they begin with")};
}

namespace {

template <class M, class Options>
void add_with(LayerKinds& kinds, const char* name, const char* doc) {
  add_layer<Options>(kinds, name, doc, [](const Options& options, const TensorType&) { return M(options); });
}

}  // namespace
}  // namespace nn

void register_layer_activation(nn::LayerKinds& kinds) {
  nn::add_plain_layer<nn::Relu>(kinds, "relu", "max(x, 0)");
  nn::add_plain_layer<nn::Relu6>(kinds, "relu6", "x cut to [0, 6]");
  nn::add_plain_layer<nn::Sigmoid>(kinds, "sigmoid", "1 / (1 + e⁻ˣ)");
  nn::add_plain_layer<nn::Tanh>(kinds, "tanh", "The hyperbolic tangent.");
  nn::add_plain_layer<nn::Silu>(kinds, "silu", "x · sigmoid(x)");
  nn::add_plain_layer<nn::Mish>(kinds, "mish", "x · tanh(softplus(x))");
  nn::add_plain_layer<nn::Selu>(kinds, "selu", "A scaled elu that keeps variances at 1.");
  nn::add_plain_layer<nn::Hardswish>(kinds, "hardswish", "x · hardsigmoid(x)");
  nn::add_plain_layer<nn::Hardsigmoid>(kinds, "hardsigmoid", "x / 6 + 1/2 cut to [0, 1]");
  nn::add_plain_layer<nn::Softplus>(kinds, "softplus", "log(1 + eˣ)");
  nn::add_plain_layer<nn::Softsign>(kinds, "softsign", "x / (1 + |x|)");
  nn::add_plain_layer<nn::LogSigmoid>(kinds, "log_sigmoid", "log(sigmoid(x))");
  nn::add_plain_layer<nn::Tanhshrink>(kinds, "tanhshrink", "x - tanh(x)");
  nn::add_with<nn::Gelu, nn::GeluOptions>(kinds, "gelu", "x · Φ(x), Φ being the normal distribution's share below x.");
  nn::add_with<nn::LeakyRelu, nn::LeakyReluOptions>(kinds, "leaky_relu", "slope · x below 0.");
  nn::add_with<nn::Elu, nn::EluOptions>(kinds, "elu", "alpha · (eˣ - 1) below 0.");
  nn::add_with<nn::Celu, nn::EluOptions>(kinds, "celu", "alpha · (e^(x / alpha) - 1) below 0.");
  nn::add_with<nn::Hardtanh, nn::HardtanhOptions>(kinds, "hardtanh", "x cut to [min, max].");
  nn::add_with<nn::Softmax, nn::AxisOptions>(kinds, "softmax", "Shares along an axis.");
  nn::add_with<nn::LogSoftmax, nn::AxisOptions>(kinds, "log_softmax", "Their logarithms.");
  nn::add_with<nn::Glu, nn::AxisOptions>(kinds, "glu", "The first half of an axis times the sigmoid of the second.");
  nn::add_layer<nn::PreluOptions>(
      kinds, "prelu", "A learned slope below 0.", [](const nn::PreluOptions& options, const TensorType& sample) {
        nn::PreluOptions o = options;
        check(o.channels <= 1, "[prelu] expected channels 0 or 1, got {}", o.channels);
        check(sample.shape.rank() > 0, "[prelu] expected samples [c, ...], got {}", to_string(sample));
        if (o.channels == 0) o.channels = sample.shape[0];
        return nn::Prelu(o);
      });
}

}  // namespace starling
