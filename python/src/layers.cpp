#include "starling/nn/layers.h"

#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "bind.h"
#include "convert.h"
#include "starling/nn/attention.h"
#include "starling/nn/embedding.h"
#include "starling/nn/normalize.h"
#include "starling/nn/recurrent.h"

// Layers of the library by their classes; those that the package makes of the registry are in layer_kinds.cpp.
namespace starling::python {
namespace {

// Keeps the arguments that a layer was made with, so that copies and pickles make another one.
template <class... Arguments>
void remember(nn::Module* self, const Arguments&... arguments) {
  nb::setattr(nb::find(self), "_made", nb::make_tuple(nb::none(), nb::make_tuple(arguments...)));
}

constexpr const char* kWeight = "The weight. Another layer's, or a Parameter, takes its place: both are one then.";

nn::Sizes sizes(const Shape& shape) { return {shape}; }

// An argument under PyTorch's name for it, as a layer of this kind has it.
using Words = std::vector<std::pair<std::string_view, const char*>>;
template <class Argument>
Argument in_words(Argument argument, const Words& words) {
  for (const auto& [ours, theirs] : words) {
    if (argument.name_ == ours) argument.name_ = theirs;
  }
  return argument;
}

// Options by our names, or all of them by PyTorch's.
template <class Layer, class F, class... Arguments>
void def_layer(nb::class_<Layer, nn::Module>& layer, F make, const Words& words, const Arguments&... arguments) {
  layer.def("__init__", make, arguments...);
  layer.def("__init__", make, in_words(arguments, words)...);
}

Words conv_words() { return {{"inputs", "in_channels"}, {"outputs", "out_channels"}, {"kernel", "kernel_size"}}; }

template <class Layer>
void bind_conv(nb::module_& m, const char* name) {
  nb::class_<Layer, nn::Module> layer(m, name);
  def_layer(
      layer,
      [](Layer* self, std::int64_t in, std::int64_t out, const Shape& kernel, const Shape& stride, const Shape& padding,
         const Shape& dilation, std::int64_t groups, bool bias) {
        new (self) Layer({.in = in,
                          .out = out,
                          .kernel = sizes(kernel),
                          .stride = sizes(stride),
                          .padding = sizes(padding),
                          .groups = groups,
                          .bias = bias,
                          .dilation = sizes(dilation)});
        remember(self, in, out, kernel, stride, padding, dilation, groups, bias);
      },
      conv_words(), nb::arg("inputs"), nb::arg("outputs"), nb::arg("kernel"), nb::arg("stride") = Shape{1},
      nb::arg("padding") = Shape{0}, nb::arg("dilation") = Shape{1}, nb::arg("groups") = 1, nb::arg("bias") = true);
}

template <class Layer>
void bind_conv_transpose(nb::module_& m, const char* name) {
  nb::class_<Layer, nn::Module> layer(m, name);
  def_layer(
      layer,
      [](Layer* self, std::int64_t in, std::int64_t out, const Shape& kernel, const Shape& stride, const Shape& padding,
         const Shape& output_padding, std::int64_t groups, bool bias) {
        new (self) Layer({.in = in,
                          .out = out,
                          .kernel = sizes(kernel),
                          .stride = sizes(stride),
                          .padding = sizes(padding),
                          .output_padding = sizes(output_padding),
                          .groups = groups,
                          .bias = bias});
        remember(self, in, out, kernel, stride, padding, output_padding, groups, bias);
      },
      conv_words(), nb::arg("inputs"), nb::arg("outputs"), nb::arg("kernel"), nb::arg("stride") = Shape{1},
      nb::arg("padding") = Shape{0}, nb::arg("output_padding") = Shape{0}, nb::arg("groups") = 1,
      nb::arg("bias") = true);
}

template <class Layer>
void bind_batch_norm(nb::module_& m, const char* name) {
  nb::class_<Layer, nn::Module> layer(m, name);
  def_layer(
      layer,
      [](Layer* self, std::int64_t channels, double eps, double momentum, bool affine, bool global_statistics) {
        new (self) Layer({.channels = channels,
                          .eps = eps,
                          .momentum = momentum,
                          .global_statistics = global_statistics,
                          .affine = affine});
        remember(self, channels, eps, momentum, affine, global_statistics);
      },
      Words{{"channels", "num_features"}}, nb::arg("channels"), nb::arg("eps") = 1e-5, nb::arg("momentum") = 0.1,
      nb::arg("affine") = true, nb::arg("global_statistics") = false);
}

template <class Layer>
void bind_recurrent(nb::module_& m, const char* name) {
  nb::class_<Layer, nn::Module> layer(m, name);
  def_layer(
      layer,
      [](Layer* self, std::int64_t in, std::int64_t hidden, std::int64_t layers, bool bidirectional, double dropout,
         bool batch_first, bool bias) {
        new (self) Layer({.in = in,
                          .hidden = hidden,
                          .layers = layers,
                          .bidirectional = bidirectional,
                          .dropout = dropout,
                          .batch_first = batch_first,
                          .bias = bias});
        remember(self, in, hidden, layers, bidirectional, dropout, batch_first, bias);
      },
      Words{{"inputs", "input_size"}, {"hidden", "hidden_size"}, {"layers", "num_layers"}}, nb::arg("inputs"),
      nb::arg("hidden"), nb::arg("layers") = 1, nb::arg("bidirectional") = false, nb::arg("dropout") = 0.0,
      nb::arg("batch_first") = false, nb::arg("bias") = true);
}

}  // namespace

void bind_layers(nb::module_& m) {
  nb::class_<nn::Linear, nn::Module> linear(m, "Linear");
  def_layer(
      linear,
      [](nn::Linear* self, std::int64_t in, std::int64_t out, bool bias) {
        new (self) nn::Linear({.in = in, .out = out, .bias = bias});
        remember(self, in, out, bias);
      },
      Words{{"inputs", "in_features"}, {"outputs", "out_features"}}, nb::arg("inputs"), nb::arg("outputs"),
      nb::arg("bias") = true);
  linear.def_prop_rw("weight", &nn::Linear::weight, &nn::Linear::share_weight, kWeight);
  bind_conv<nn::Conv1d>(m, "Conv1d");
  bind_conv<nn::Conv2d>(m, "Conv2d");
  bind_conv<nn::Conv3d>(m, "Conv3d");
  bind_conv_transpose<nn::ConvTranspose1d>(m, "ConvTranspose1d");
  bind_conv_transpose<nn::ConvTranspose2d>(m, "ConvTranspose2d");
  bind_conv_transpose<nn::ConvTranspose3d>(m, "ConvTranspose3d");
  bind_batch_norm<nn::BatchNorm1d>(m, "BatchNorm1d");
  bind_batch_norm<nn::BatchNorm2d>(m, "BatchNorm2d");
  bind_batch_norm<nn::BatchNorm3d>(m, "BatchNorm3d");
  bind_recurrent<nn::Rnn>(m, "Rnn");
  bind_recurrent<nn::Gru>(m, "Gru");
  bind_recurrent<nn::Lstm>(m, "Lstm");
  nb::class_<nn::LayerNorm, nn::Module> layerNorm(m, "LayerNorm");
  def_layer(
      layerNorm,
      [](nn::LayerNorm* self, const Shape& width, double eps, bool affine, bool bias) {
        new (self) nn::LayerNorm({.width = sizes(width), .eps = eps, .affine = affine, .bias = bias});
        remember(self, width, eps, affine, bias);
      },
      Words{{"width", "normalized_shape"}, {"affine", "elementwise_affine"}}, nb::arg("width"), nb::arg("eps") = 1e-5,
      nb::arg("affine") = true, nb::arg("bias") = true);
  nb::class_<nn::RmsNorm, nn::Module> rmsNorm(m, "RmsNorm");
  def_layer(
      rmsNorm,
      [](nn::RmsNorm* self, const Shape& width, double eps) {
        new (self) nn::RmsNorm({.width = sizes(width), .eps = eps});
        remember(self, width, eps);
      },
      Words{{"width", "normalized_shape"}}, nb::arg("width"), nb::arg("eps") = 1e-5);
  nb::class_<nn::GroupNorm, nn::Module> groupNorm(m, "GroupNorm");
  def_layer(
      groupNorm,
      [](nn::GroupNorm* self, std::int64_t groups, std::int64_t channels, double eps) {
        new (self) nn::GroupNorm({.groups = groups, .channels = channels, .eps = eps});
        remember(self, groups, channels, eps);
      },
      Words{{"groups", "num_groups"}, {"channels", "num_channels"}}, nb::arg("groups"), nb::arg("channels"),
      nb::arg("eps") = 1e-5);
  nb::class_<nn::Embedding, nn::Module> embedding(m, "Embedding");
  def_layer(
      embedding,
      [](nn::Embedding* self, std::int64_t vocabulary, std::int64_t width, std::optional<std::int64_t> padding,
         bool sparse) {
        new (self) nn::Embedding({.vocabulary = vocabulary, .width = width, .padding = padding, .sparse = sparse});
        remember(self, vocabulary, width, padding, sparse);
      },
      Words{{"vocabulary", "num_embeddings"}, {"width", "embedding_dim"}, {"padding", "padding_idx"}},
      nb::arg("vocabulary"), nb::arg("width"), nb::arg("padding") = nb::none(), nb::arg("sparse") = false);
  embedding.def_prop_rw("weight", &nn::Embedding::weight, &nn::Embedding::share_weight, kWeight);
  nb::class_<nn::Dropout, nn::Module>(m, "Dropout")
      .def(
          "__init__",
          [](nn::Dropout* self, double p) {
            new (self) nn::Dropout(p);
            remember(self, p);
          },
          nb::arg("p") = 0.5);
  nb::class_<nn::MultiHeadAttention, nn::Module> multiHeadAttention(m, "MultiHeadAttention");
  def_layer(
      multiHeadAttention,
      [](nn::MultiHeadAttention* self, std::int64_t width, std::int64_t heads, bool causal, bool bias, double dropout) {
        new (self) nn::MultiHeadAttention(
            {.width = width, .heads = heads, .causal = causal, .bias = bias, .dropout = dropout});
        remember(self, width, heads, causal, bias, dropout);
      },
      Words{{"width", "embed_dim"}, {"heads", "num_heads"}}, nb::arg("width"), nb::arg("heads"),
      nb::arg("causal") = false, nb::arg("bias") = true, nb::arg("dropout") = 0.0);
}

}  // namespace starling::python
