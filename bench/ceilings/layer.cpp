#include "layer.h"

#include <fmt/format.h>

namespace starling::ceilings {
namespace {

const char* name(Activation activation) {
  switch (activation) {
    case Activation::relu: return "relu";
    case Activation::tanh: return "tanh";
    case Activation::sigmoid: return "sigmoid";
    case Activation::gelu: return "gelu";
    case Activation::none: break;
  }
  return "none";
}

std::string window(const Layer& l) { return fmt::format("k{}s{}p{}", l.kernel, l.stride, l.pad); }

std::string image(const Layer& l) { return fmt::format("{}x{}x{}x{}", l.batch, l.in, l.height, l.width); }

double forward_flops(const Layer& l) {
  const auto weights = static_cast<double>(l.in * l.out);
  const auto batch = static_cast<double>(l.batch);
  switch (l.kind) {
    case Kind::conv:
      return 2 * batch * weights * static_cast<double>(l.kernel * l.kernel * l.out_height() * l.out_width());
    case Kind::dense: return 2 * batch * weights;
    case Kind::product: return 2 * batch * weights * static_cast<double>(l.height);
    case Kind::lstm: return 2 * batch * static_cast<double>(l.steps * 4 * (l.in + l.out) * l.out);
    default: return 0;
  }
}

}  // namespace

std::string name(const Layer& l) {
  switch (l.kind) {
    case Kind::conv: return fmt::format("conv {} {} -> {}", image(l), window(l), l.out);
    case Kind::dense: return fmt::format("dense {}x{} -> {}", l.batch, l.in, l.out);
    case Kind::product:
      return fmt::format("product {}x[{}x{}]x[{}x{}]{}", l.batch, l.height, l.in, l.in, l.out, l.transposed ? "t" : "");
    case Kind::lstm: return fmt::format("lstm {}x{}x{} -> {}", l.steps, l.batch, l.in, l.out);
    case Kind::max_pool: return fmt::format("max_pool {} {}", image(l), window(l));
    case Kind::average_pool: return fmt::format("average_pool {} {}", image(l), window(l));
    case Kind::batch_norm: return fmt::format("batch_norm {}", image(l));
    case Kind::layer_norm: return fmt::format("layer_norm {}x{}", l.batch, l.in);
    case Kind::softmax: return fmt::format("softmax {}x{}", l.batch, l.in);
    case Kind::eltwise: return fmt::format("{} {}", name(l.activation), image(l));
  }
  return {};
}

const char* name(graph::Pass pass) {
  switch (pass) {
    case graph::Pass::forward: return "forward";
    case graph::Pass::backward_data: return "backward_data";
    case graph::Pass::backward_weights: return "backward_weights";
    case graph::Pass::backward: return "backward";
  }
  return "";
}

bool is_arithmetic(const Layer& l) { return forward_flops(l) > 0; }

double flops(const Layer& l, graph::Pass pass) { return forward_flops(l) * (pass == graph::Pass::backward ? 2 : 1); }

}  // namespace starling::ceilings
