#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "define.h"
#include "starling/ops/api/attention.h"
#include "starling/ops/api/conv.h"
#include "starling/ops/api/conv_transpose.h"
#include "starling/ops/api/embedding.h"
#include "starling/ops/api/interpolate.h"
#include "starling/ops/api/local_norm.h"
#include "starling/ops/api/matmul.h"
#include "starling/ops/api/normalize.h"
#include "starling/ops/api/pool.h"
#include "starling/ops/api/random.h"
#include "starling/ops/api/rotary.h"
#include "starling/ops/def/attrs/rotary.h"

namespace starling::python {
namespace {

void bind_products(nb::module_& m) {
  m.def(
      "matmul",
      [](const Arg& a, const Arg& b, nb::kwargs k) {
        return matmul(a.tensor, b.tensor, attrs_from<op::MatmulAttrs>(k, "matmul"));
      },
      nb::arg("a"), nb::arg("b"), nb::arg("attributes"), "The matrix product, over leading axes.");
  def_weighted<op::LinearAttrs, &linear>(m, "linear", "x · weightᵀ + bias");
  def_weighted<op::Conv1dAttrs, &conv1d>(m, "conv1d", "Convolution of [n, c, l].");
  def_weighted<op::Conv2dAttrs, &conv2d>(m, "conv2d", "Convolution of [n, c, h, w].");
  def_weighted<op::Conv3dAttrs, &conv3d>(m, "conv3d", "Convolution of [n, c, d, h, w].");
  def_weighted<op::ConvTranspose1dAttrs, &conv_transpose1d>(m, "conv_transpose1d",
                                                            "Transposed convolution of [n, c, l].");
  def_weighted<op::ConvTranspose2dAttrs, &conv_transpose2d>(m, "conv_transpose2d",
                                                            "Transposed convolution of [n, c, h, w].");
  def_weighted<op::ConvTranspose3dAttrs, &conv_transpose3d>(m, "conv_transpose3d",
                                                            "Transposed convolution of [n, c, d, h, w].");
}

void bind_pools(nb::module_& m) {
  def_with<op::MaxPoolAttrs, &max_pool1d>(m, "max_pool1d", "The largest value of each window.");
  def_with<op::MaxPoolAttrs, &max_pool2d>(m, "max_pool2d", "The largest value of each window.");
  def_with<op::MaxPoolAttrs, &max_pool3d>(m, "max_pool3d", "The largest value of each window.");
  def_with<op::AvgPoolAttrs, &avg_pool1d>(m, "avg_pool1d", "The mean of each window.");
  def_with<op::AvgPoolAttrs, &avg_pool2d>(m, "avg_pool2d", "The mean of each window.");
  def_with<op::AvgPoolAttrs, &avg_pool3d>(m, "avg_pool3d", "The mean of each window.");
  def_with<op::LpPoolAttrs, &lp_pool1d>(m, "lp_pool1d", "The norm of each window.");
  def_with<op::LpPoolAttrs, &lp_pool2d>(m, "lp_pool2d", "The norm of each window.");
  def_with<op::LpPoolAttrs, &lp_pool3d>(m, "lp_pool3d", "The norm of each window.");
  def_with<op::AdaptivePoolAttrs, &adaptive_max_pool1d>(m, "adaptive_max_pool1d",
                                                        "The largest value of each of `size` windows.");
  def_with<op::AdaptivePoolAttrs, &adaptive_max_pool2d>(m, "adaptive_max_pool2d",
                                                        "The largest value of each of `size` windows.");
  def_with<op::AdaptivePoolAttrs, &adaptive_max_pool3d>(m, "adaptive_max_pool3d",
                                                        "The largest value of each of `size` windows.");
  def_with<op::AdaptivePoolAttrs, &adaptive_avg_pool1d>(m, "adaptive_avg_pool1d",
                                                        "The mean of each of `size` windows.");
  def_with<op::AdaptivePoolAttrs, &adaptive_avg_pool2d>(m, "adaptive_avg_pool2d",
                                                        "The mean of each of `size` windows.");
  def_with<op::AdaptivePoolAttrs, &adaptive_avg_pool3d>(m, "adaptive_avg_pool3d",
                                                        "The mean of each of `size` windows.");
  def_unary<&global_max_pool>(m, "global_max_pool", "The largest value of each channel.");
  def_unary<&global_avg_pool>(m, "global_avg_pool", "The mean of each channel.");
}

void bind_norms(nb::module_& m) {
  m.def(
      "batch_norm",
      [](const Arg& x, const std::optional<Arg>& weight, const std::optional<Arg>& bias, double eps,
         bool global_statistics) {
        const auto result = batch_norm(x.tensor, given(weight), given(bias), {eps, global_statistics});
        return nb::make_tuple(result.y, result.mean, result.var);
      },
      nb::arg("x"), nb::arg("weight") = nb::none(), nb::arg("bias") = nb::none(), nb::arg("eps") = 1e-5,
      nb::arg("global_statistics") = false, "Normalised by the batch's own statistics, and these: y, mean, var.");
  m.def(
      "batch_norm_infer",
      [](const Arg& x, const Arg& mean, const Arg& var, const std::optional<Arg>& weight,
         const std::optional<Arg>& bias,
         double eps) { return batch_norm_infer(x.tensor, mean.tensor, var.tensor, given(weight), given(bias), {eps}); },
      nb::arg("x"), nb::arg("mean"), nb::arg("var"), nb::arg("weight") = nb::none(), nb::arg("bias") = nb::none(),
      nb::arg("eps") = 1e-5, "Normalised by given statistics.");
  def_weighted<op::LayerNormAttrs, &layer_norm>(m, "layer_norm", "Normalised over the last axes.");
  m.def(
      "rms_norm",
      [](const Arg& x, const std::optional<Arg>& weight, nb::kwargs k) {
        return rms_norm(x.tensor, given(weight), attrs_from<op::LayerNormAttrs>(k, "rms_norm"));
      },
      nb::arg("x"), nb::arg("weight") = nb::none(), nb::arg("attributes"),
      "Divided by the root of the mean square of the last axes.");
  def_weighted<op::GroupNormAttrs, &group_norm>(m, "group_norm", "Normalised over groups of channels.");
  def_weighted<op::EpsAttrs, &instance_norm>(m, "instance_norm", "Normalised over each channel of each sample.");
  def_with<op::LocalResponseNormAttrs, &local_response_norm>(m, "local_response_norm",
                                                             "Divided by the size of neighbouring channels.");
  def_with<op::LocalContrastNormAttrs, &local_contrast_norm>(m, "local_contrast_norm",
                                                             "Normalised by the neighbourhood.");
}

void bind_sequences(nb::module_& m) {
  m.def(
      "embedding",
      [](const Arg& indices, const Arg& weight, std::optional<std::int64_t> padding_idx, bool sparse) {
        return embedding(indices.tensor, weight.tensor, {padding_idx, sparse});
      },
      nb::arg("indices"), nb::arg("weight"), nb::arg("padding_idx") = nb::none(), nb::arg("sparse") = false,
      "Rows of the weight at these indices.");
  m.def(
      "scaled_dot_product_attention",
      [](const Arg& q, const Arg& k, const Arg& v, const std::optional<Arg>& mask, bool causal, double scale,
         double dropout) {
        return scaled_dot_product_attention(
            q.tensor, k.tensor, v.tensor, {.mask = given(mask), .causal = causal, .scale = scale, .dropout = dropout});
      },
      nb::arg("q"), nb::arg("k"), nb::arg("v"), nb::arg("mask") = nb::none(), nb::arg("causal") = false,
      nb::arg("scale") = 0.0, nb::arg("dropout") = 0.0, "softmax(q · kᵀ · scale + mask) · v; a scale of 0 is 1/√d.");
  def_with<op::RotaryAttrs, &rotary>(m, "rotary", "Pairs of elements turned by their position.");
  def_with<op::InterpolateAttrs, &interpolate>(m, "interpolate", "Images in another size.");
}

}  // namespace

void bind_network_ops(nb::module_& m) {
  bind_products(m);
  bind_pools(m);
  bind_norms(m);
  bind_sequences(m);
}

}  // namespace starling::python
