#include "plans.h"

#if DNNL_VERSION_MAJOR >= 3
#include "v3/api.h"
#else
#include "v2/api.h"
#endif

#include "starling/base/error.h"

namespace starling::ceilings {
namespace {

using dnnl::algorithm;
using dnnl::engine;
using dnnl::memory;
using dnnl::prop_kind;
using Tag = memory::format_tag;

memory::desc floats(const memory::dims& dims, Tag tag = Tag::any) { return {dims, memory::data_type::f32, tag}; }

// The format convolutions work in: channels in blocks of a vector, or last where they do not fill blocks.
Tag image_tag(std::int64_t channels) {
  const bool wide = dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core;
  if (channels % (wide ? 16 : 8) != 0) return Tag::nhwc;
  return wide ? Tag::nChw16c : Tag::nChw8c;
}

memory::desc image(const Layer& l) { return floats({l.batch, l.in, l.height, l.width}, image_tag(l.in)); }

std::vector<kernels::Plan> conv(const Layer& l, const engine& engine) {
  const auto src = floats({l.batch, l.in, l.height, l.width});
  const auto weights = floats({l.out, l.in, l.kernel, l.kernel});
  const auto bias = floats({l.out}, Tag::a);
  const auto dst = floats({l.batch, l.out, l.out_height(), l.out_width()});
  const memory::dims stride{l.stride, l.stride}, pad{l.pad, l.pad};
  const auto how = algorithm::convolution_direct;
  const auto forward = api::describe<dnnl::convolution_forward>(engine, prop_kind::forward_training, how, src, weights,
                                                                bias, dst, stride, pad, pad);
  std::vector<kernels::Plan> result{{graph::Pass::forward, forward}};
  if (!l.first) {
    result.push_back({graph::Pass::backward_data, api::describe_backward<dnnl::convolution_backward_data>(
                                                      engine, forward, how, src, weights, dst, stride, pad, pad)});
  }
  result.push_back(
      {graph::Pass::backward_weights, api::describe_backward<dnnl::convolution_backward_weights>(
                                          engine, forward, how, src, weights, bias, dst, stride, pad, pad)});
  return result;
}

std::vector<kernels::Plan> dense(const Layer& l, const engine& engine) {
  const auto src = floats({l.batch, l.in}), weights = floats({l.out, l.in}), dst = floats({l.batch, l.out});
  const auto bias = floats({l.out}, Tag::a);
  const auto forward =
      api::describe<dnnl::inner_product_forward>(engine, prop_kind::forward_training, src, weights, bias, dst);
  std::vector<kernels::Plan> result{{graph::Pass::forward, forward}};
  if (!l.first) {
    result.push_back({graph::Pass::backward_data,
                      api::describe_backward<dnnl::inner_product_backward_data>(engine, forward, src, weights, dst)});
  }
  result.push_back({graph::Pass::backward_weights, api::describe_backward<dnnl::inner_product_backward_weights>(
                                                       engine, forward, src, weights, bias, dst)});
  return result;
}

// C = A B in plain formats, with the products of its backward pass: dA = dC Bᵀ and dB = Aᵀ dC (or dBᵀ = dCᵀ A).
std::vector<kernels::Plan> product(const Layer& l, const engine& engine) {
  const auto plan = [&](graph::Pass pass, const memory::desc& a, const memory::desc& b, std::int64_t rows,
                        std::int64_t columns) {
    return kernels::Plan{pass, api::describe<dnnl::matmul>(engine, a, b, floats({l.batch, rows, columns}, Tag::abc))};
  };
  const auto b = floats({l.batch, l.in, l.out}, l.transposed ? Tag::acb : Tag::abc);
  const auto b_turned = floats({l.batch, l.out, l.in}, l.transposed ? Tag::abc : Tag::acb);
  const auto a = floats({l.batch, l.height, l.in}, Tag::abc), a_turned = floats({l.batch, l.in, l.height}, Tag::acb);
  const auto c = floats({l.batch, l.height, l.out}, Tag::abc), c_turned = floats({l.batch, l.out, l.height}, Tag::acb);
  const kernels::Plan weights = l.transposed ? plan(graph::Pass::backward_weights, c_turned, a, l.out, l.in)
                                             : plan(graph::Pass::backward_weights, a_turned, c, l.in, l.out);
  return {plan(graph::Pass::forward, a, b, l.height, l.out),
          plan(graph::Pass::backward_data, c, b_turned, l.height, l.in), weights};
}

std::vector<kernels::Plan> lstm(const Layer& l, const engine& engine) {
  const auto in = floats({l.steps, l.batch, l.in}), out = floats({l.steps, l.batch, l.out});
  const auto state = floats({1, 1, l.batch, l.out}), bias = floats({1, 1, 4, l.out});
  const auto w_in = floats({1, 1, l.in, 4, l.out}), w_state = floats({1, 1, l.out, 4, l.out});
  const auto way = dnnl::rnn_direction::unidirectional_left2right;
  const auto forward = api::describe<dnnl::lstm_forward>(engine, prop_kind::forward_training, way, in, state, state,
                                                         w_in, w_state, bias, out, state, state);
  const auto backward = api::describe_backward<dnnl::lstm_backward>(
      engine, forward, prop_kind::backward, way, in, state, state, w_in, w_state, bias, out, state, state, in, state,
      state, w_in, w_state, bias, out, state, state);
  return {{graph::Pass::forward, forward}, {graph::Pass::backward, backward}};
}

std::vector<kernels::Plan> pool(const Layer& l, const engine& engine) {
  const auto src = image(l), dst = floats({l.batch, l.in, l.out_height(), l.out_width()}, image_tag(l.in));
  const memory::dims kernel{l.kernel, l.kernel}, stride{l.stride, l.stride}, pad{l.pad, l.pad}, dilation{0, 0};
  const auto how = l.kind == Kind::max_pool ? algorithm::pooling_max : algorithm::pooling_avg_exclude_padding;
  const auto forward = api::describe<api::PoolForward>(engine, prop_kind::forward_training, how, src, dst, stride,
                                                       kernel, dilation, pad, pad);
  const auto backward =
      api::describe_backward<api::PoolBackward>(engine, forward, how, src, dst, stride, kernel, dilation, pad, pad);
  return {{graph::Pass::forward, forward}, {graph::Pass::backward, backward}};
}

template <class Forward, class Backward>
std::vector<kernels::Plan> norm(const memory::desc& data, const engine& engine) {
  const auto flags = dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;
  const auto forward = api::norm_forward<Forward>(engine, data, flags);
  const auto backward = api::norm_backward<Backward>(engine, forward, data, flags);
  return {{graph::Pass::forward, forward}, {graph::Pass::backward, backward, api::kRefused<Backward>}};
}

std::vector<kernels::Plan> softmax(const Layer& l, const engine& engine) {
  const auto data = floats({l.batch, l.in}, Tag::ab);
  const auto how = algorithm::softmax_accurate;
  const auto forward = api::describe<api::SoftmaxForward>(engine, prop_kind::forward_training, how, data, data, 1);
  const auto backward = api::describe_backward<api::SoftmaxBackward>(engine, forward, how, data, data, data, 1);
  return {{graph::Pass::forward, forward}, {graph::Pass::backward, backward}};
}

algorithm eltwise_algorithm(Activation activation) {
  switch (activation) {
    case Activation::relu: return algorithm::eltwise_relu;
    case Activation::tanh: return algorithm::eltwise_tanh;
    case Activation::sigmoid: return algorithm::eltwise_logistic;
    case Activation::gelu: return algorithm::eltwise_gelu_erf;
    case Activation::none: break;
  }
  fail("[ceilings] expected an activation, got none");
}

std::vector<kernels::Plan> eltwise(const Layer& l, const engine& engine) {
  const auto how = eltwise_algorithm(l.activation);
  const auto forward = api::eltwise_forward(engine, how, image(l));
  return {{graph::Pass::forward, forward},
          {graph::Pass::backward, api::eltwise_backward(engine, forward, how, image(l))}};
}

}  // namespace

std::vector<kernels::Plan> plans(const Layer& l, const engine& engine) {
  switch (l.kind) {
    case Kind::conv: return conv(l, engine);
    case Kind::dense: return dense(l, engine);
    case Kind::product: return product(l, engine);
    case Kind::lstm: return lstm(l, engine);
    case Kind::max_pool:
    case Kind::average_pool: return pool(l, engine);
    case Kind::batch_norm:
      return norm<dnnl::batch_normalization_forward, dnnl::batch_normalization_backward>(image(l), engine);
    case Kind::layer_norm:
      return norm<dnnl::layer_normalization_forward, dnnl::layer_normalization_backward>(
          floats({l.batch, l.in}, Tag::ab), engine);
    case Kind::softmax: return softmax(l, engine);
    case Kind::eltwise: return eltwise(l, engine);
  }
  return {};
}

}  // namespace starling::ceilings
