#include "starling/graph/passes/partition/picture_norms.h"

#include <algorithm>

#include "starling/graph/splice.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/normalize.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/unary.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/local_norm.h"
#include "starling/ops/def/attrs/normalize.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling::graph {
namespace {

constexpr int kPictureRank = 4;

// Statistics of all rows of the batch, as those of ranks that have other samples would be.
TensorList normalise(std::span<const Tensor> in, double eps) {
  const Tensor none;
  const BatchNormResult made = batch_norm(in[0], in.size() > 1 ? in[1] : none, in.size() > 2 ? in[2] : none,
                                          {.eps = eps, .global_statistics = true});
  return {made.y, made.mean, made.var};
}

// With h = (x - mean) / sqrt(var + eps): dx = weight / sqrt(var + eps) · (dy - (Σ dy + h Σ dy h) / n).
// Halves are widened, as for batch_norm of global statistics.
TensorList normalise_back(std::span<const Tensor> in, double eps) {
  if (const DType half = in[1].dtype(); is_half(half)) {
    TensorList wide;
    for (const Tensor& one : in) wide.push_back(rules::widened(one));
    TensorList made = normalise_back({wide.data(), wide.size()}, eps);
    for (Tensor& one : made) one = cast(one, half);
    return made;
  }
  const bool weighted = in.size() > 4;
  const Tensor &x = in[1], &mean = in[2], &var = in[3];
  const op::EpsAttrs attrs{eps};
  const TensorList back = apply(find_op("batch_norm_infer_backward"), in, attrs);
  Shape channels = Shape::filled(x.rank(), 1);
  channels[1] = x.size(1);
  const auto spread = [&](const Tensor& t) { return reshape(t, channels); };
  const double each = static_cast<double>(x.size(1)) / static_cast<double>(x.numel());
  const Tensor root = sqrt(add(var, eps));
  const Tensor scale = mul(weighted ? div(in[4], root) : div(full({}, 1.0, root.dtype()), root), each);
  const Tensor h = batch_norm_infer(x, mean, var, {}, {}, attrs);
  const Tensor common = mul(spread(scale), add(spread(back[1]), mul(h, spread(back[2]))));
  const Tensor none = full({0}, 0.0, x.dtype());
  return {sub(back[0], common), weighted ? back[2] : none, weighted ? back[1] : none};
}

TensorList unbiased(const Tensor& var, std::int64_t count) {
  return {count > 1 ? mul(var, static_cast<double>(count) / static_cast<double>(count - 1)) : var};
}

// As the op is defined: x less its Gaussian mean, over the larger of the local deviation and its mean over the picture.
TensorList contrast(std::span<const Tensor> in, const op::LocalContrastNormAttrs& a) {
  const op::GaussianMeanAttrs window{a.size, a.sigma};
  const Tensor v = sub(in[0], op::gaussian_mean(in[0], window));
  const Tensor s = sqrt(add(op::gaussian_mean(mul(v, v), window), a.epsilon));
  const double pixel = 1 / static_cast<double>(std::max<std::int64_t>(in[0].size(2) * in[0].size(3), 1));
  return {div(v, maximum(s, mul(sum(s, {{2, 3}, true}), pixel)))};
}

// Norms and the corrections of their variances are rewritten together: both count the rows of the whole batch, or none.
bool is_picture(const TensorType& x) { return x.shape.rank() >= kPictureRank && x.shape.numel() > 0; }

}  // namespace

std::optional<Graph> in_sums_over_rows(const Node& node, const Types& operands) {
  const auto of = [&](FunctionRef<TensorList(std::span<const Tensor>)> function) {
    return traced({operands.data(), operands.size()}, function);
  };
  const bool back = is_op(node, "batch_norm_train_backward");
  if (back || is_op(node, "batch_norm_train")) {
    if (!is_picture(operands[back ? 1 : 0])) return std::nullopt;
    const double eps = node.attrs.as<op::EpsAttrs>().eps;
    return of([&](std::span<const Tensor> in) { return back ? normalise_back(in, eps) : normalise(in, eps); });
  }
  if (is_op(node, "unbiased_variance") && is_picture(operands[0]))
    return of([&](std::span<const Tensor> in) { return unbiased(in[1], in[0].numel() / in[0].size(1)); });
  if (!is_op(node, "local_contrast_norm")) return std::nullopt;
  const auto& a = node.attrs.as<op::LocalContrastNormAttrs>();
  return of([&](std::span<const Tensor> in) { return contrast(in, a); });
}

}  // namespace starling::graph
