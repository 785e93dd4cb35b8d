#include <algorithm>
#include <cmath>
#include <limits>

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/loss.h"
#include "starling/ops/api/unary.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {
namespace {

struct HuberAttrs {
  double delta = 1;
  static AttrFields fields() { return {field("delta", &HuberAttrs::delta)}; }
};
struct SmoothAttrs {
  double beta = 1;
  static AttrFields fields() { return {field("beta", &SmoothAttrs::beta)}; }
};
struct KlAttrs {
  bool log_target = false;
  static AttrFields fields() { return {field("log_target", &KlAttrs::log_target)}; }
};
struct HingeAttrs {
  double margin = 1;
  static AttrFields fields() { return {field("margin", &HingeAttrs::margin)}; }
};

}  // namespace

Tensor l1(const Tensor& prediction, const Tensor& target, const LossOptions& options) {
  return op::reduce_loss(apply1(named_op<"l1_loss">(), {prediction, target}), options, "l1");
}
Tensor huber(const Tensor& prediction, const Tensor& target, double delta, const LossOptions& options) {
  return op::reduce_loss(apply1(named_op<"huber_loss">(), {prediction, target}, HuberAttrs{delta}), options, "huber");
}
Tensor smooth_l1(const Tensor& prediction, const Tensor& target, double beta, const LossOptions& options) {
  return op::reduce_loss(apply1(named_op<"smooth_l1_loss">(), {prediction, target}, SmoothAttrs{beta}), options,
                         "smooth_l1");
}
Tensor bce(const Tensor& probability, const Tensor& target, const LossOptions& options) {
  return op::reduce_loss(apply1(named_op<"bce_loss">(), {probability, target}), options, "bce");
}
Tensor bce_with_logits(const Tensor& logits, const Tensor& target, const Tensor& pos_weight,
                       const LossOptions& options) {
  const Tensor weight = pos_weight.defined() ? pos_weight : scalar(1.0, logits.dtype());
  return op::reduce_loss(apply1(named_op<"bce_with_logits_loss">(), {logits, target, weight}), options,
                         "bce_with_logits");
}
Tensor kl_div(const Tensor& log_probs, const Tensor& target, bool log_target, const LossOptions& options) {
  return op::reduce_loss(apply1(named_op<"kl_div_loss">(), {log_probs, target}, KlAttrs{log_target}), options,
                         "kl_div");
}
Tensor hinge(const Tensor& x, const Tensor& target, double margin, const LossOptions& options) {
  return op::reduce_loss(apply1(named_op<"hinge_loss">(), {x, target}, HingeAttrs{margin}), options, "hinge");
}

namespace {

Types infer_pair(const InferCall& call) {
  rules::expect_float(call);
  return rules::infer_broadcast(call);
}

void expect_positive(const InferCall& call, const char* attribute, double value) {
  check(value > 0 && std::isfinite(value), "[{}] expected a finite {} > 0, got {}", call.op.name, attribute, value);
}

Types infer_huber(const InferCall& call) {
  expect_positive(call, "delta", call.attrs.as<HuberAttrs>().delta);
  return infer_pair(call);
}
Types infer_smooth(const InferCall& call) {
  expect_positive(call, "beta", call.attrs.as<SmoothAttrs>().beta);
  return infer_pair(call);
}

Types infer_hinge(const InferCall& call) {
  const double margin = call.attrs.as<HingeAttrs>().margin;
  check(std::isfinite(margin), "[hinge_loss] expected a finite margin, got {}", margin);
  return infer_pair(call);
}

// Gradients of both operands, reduced from the broadcast shape.
TensorList fit(const GradCall& c, TensorList grads) {
  for (std::size_t i = 0; i < grads.size(); ++i) {
    if (grads[i].defined()) grads[i] = rules::sum_to(grads[i], c.in[i].shape());
  }
  return grads;
}

// Gradients of losses that depend on a - b only, from the slope at the difference.
TensorList opposite(const GradCall& c, const Tensor& slope) {
  const Tensor da = mul(c.grads[0], slope);
  return fit(c, {c.needs(0) ? da : Tensor(), c.needs(1) ? neg(da) : Tensor()});
}

Tensor clamped(const Tensor& x, double bound) {
  const Tensor low = scalar(-bound, x.dtype());
  return neg(maximum(neg(maximum(x, low)), low));
}

Tensor choose(const Tensor& condition, const Tensor& a, double b) { return where(condition, a, scalar(b, a.dtype())); }

TensorList grad_l1(const GradCall& c) {
  const Tensor d = sub(c.in[0], c.in[1]), zero = scalar(0, d.dtype());
  return opposite(c, sub(cast(greater(d, zero), d.dtype()), cast(less(d, zero), d.dtype())));
}

TensorList grad_huber(const GradCall& c) {
  return opposite(c, clamped(sub(c.in[0], c.in[1]), c.attrs.as<HuberAttrs>().delta));
}

TensorList grad_smooth(const GradCall& c) {
  const double beta = c.attrs.as<SmoothAttrs>().beta;
  return opposite(c, clamped(div(sub(c.in[0], c.in[1]), beta), 1));
}

double cut_log(double x) { return std::max(std::log(x), -100.0); }

// Gradient by p: (p - t) / (p (1 - p)), with the denominator kept away from 0.
TensorList grad_bce(const GradCall& c) {
  const Tensor &p = c.in[0], &t = c.in[1], &g = c.grads[0];
  TensorList out(2);
  const Tensor rest = add(neg(p), 1.0), least = scalar(-100, p.dtype());
  if (c.needs(0)) out[0] = div(mul(g, sub(p, t)), maximum(mul(p, rest), scalar(1e-12, p.dtype())));
  if (c.needs(1)) out[1] = mul(g, sub(maximum(log(rest), least), maximum(log(p), least)));
  return fit(c, out);
}

// -log sigmoid(x) is log(1 + exp(-|x|)), plus |x| below 0. The multiples of |x| are taken together first, as the
// logarithm is lost beside them.
double bce_logits(const double* x) {
  const double size = std::abs(x[0]), linear = x[0] < 0 ? x[2] * x[1] : 1 - x[1];
  return linear * size + (1 + (x[2] - 1) * x[1]) * std::log1p(std::exp(-size));
}

TensorList grad_bce_logits(const GradCall& c) {
  const Tensor &x = c.in[0], &t = c.in[1], &w = c.in[2], &g = c.grads[0];
  TensorList out(3);
  const Tensor more = sub(w, scalar(1, w.dtype()));
  if (c.needs(0)) {
    const Tensor share = add(mul(more, t), 1.0);
    out[0] = mul(g, sub(add(neg(t), 1.0), mul(share, sigmoid(neg(x)))));
  }
  if (c.needs(1)) out[1] = mul(g, sub(mul(more, softplus(neg(x))), x));
  if (c.needs(2)) out[2] = mul(g, mul(t, softplus(neg(x))));
  return fit(c, out);
}

double kl(const double* x) {
  if (x[2] != 0) return std::exp(x[1]) * (x[1] - x[0]);
  return x[1] > 0 ? x[1] * (std::log(x[1]) - x[0]) : x[1] == 0 ? 0 : std::numeric_limits<double>::quiet_NaN();
}

TensorList grad_kl(const GradCall& c) {
  const Tensor &x = c.in[0], &t = c.in[1], &g = c.grads[0];
  TensorList out(2);
  if (c.attrs.as<KlAttrs>().log_target) {
    const Tensor p = exp(t);
    if (c.needs(0)) out[0] = neg(mul(g, p));
    if (c.needs(1)) out[1] = mul(g, mul(p, add(sub(t, x), 1.0)));
    return fit(c, out);
  }
  if (c.needs(0)) out[0] = neg(mul(g, t));
  if (c.needs(1)) {
    const Tensor some = greater(t, scalar(0, t.dtype()));
    out[1] = mul(g, choose(some, add(sub(log(choose(some, t, 1)), x), 1.0), 0));
  }
  return fit(c, out);
}

TensorList grad_hinge(const GradCall& c) {
  const Tensor &x = c.in[0], &t = c.in[1];
  const Tensor inside = less(mul(t, x), scalar(c.attrs.as<HingeAttrs>().margin, x.dtype()));
  const Tensor g = neg(choose(inside, c.grads[0], 0));
  return fit(c, {c.needs(0) ? mul(g, t) : Tensor(), c.needs(1) ? mul(g, x) : Tensor()});
}

struct Range {
  double low, high;
};

// Sample calls with operands of one shape and of two that broadcast, and attributes in turn.
std::vector<OpCase> pair_cases(Range a, Range b, std::vector<Attrs> attrs) {
  std::vector<OpCase> cases;
  const auto add = [&](Shape x, Shape y) {
    cases.push_back({{{.shape = x, .low = a.low, .high = a.high}, {.shape = y, .low = b.low, .high = b.high}},
                     attrs[cases.size() % attrs.size()]});
  };
  add({7}, {7});
  add({3, 5}, {3, 5});
  add({}, {});
  add({0, 3}, {0, 3});
  add({2, 1, 4}, {3, 1});
  add({1, 19}, {1, 19});
  add({4, 20}, {20});
  add({3, 1}, {3, 17});
  add({40}, {40});
  return cases;
}

OpDef pair_loss(std::string name, std::string doc, double (*scalar)(const double*),
                std::function<TensorList(const GradCall&)> gradient) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .inputs = {"a", "b"},
          .outputs = {"loss"},
          .infer = infer_pair,
          .gradient = std::move(gradient),
          .shard = rules::shard_elementwise,
          .cases =
              [] {
                return pair_cases({-2, 2}, {-2, 2}, {op::NoAttrs{}});
              },
          .scalar = scalar,
          .saves = kSavesInputs,
          .inplace = 0,
          .precision = Width::wide};
}

void register_differences(OpRegistry& ops) {
  ops.add(pair_loss(
      "l1_loss", "|a - b|", [](const double* x) { return std::abs(x[0] - x[1]); }, grad_l1));

  OpDef huber = pair_loss(
      "huber_loss", "½ (a - b)² up to |a - b| = delta, then delta (|a - b| - ½ delta).",
      [](const double* x) {
        const double d = std::abs(x[0] - x[1]), delta = x[2];
        return d <= delta ? 0.5 * d * d : delta * (d - 0.5 * delta);
      },
      grad_huber);
  huber.attrs = &attr_type<HuberAttrs>();
  huber.infer = infer_huber;
  huber.cases = [] { return pair_cases({-2, 2}, {-2, 2}, {HuberAttrs{}, HuberAttrs{0.6}}); };
  ops.add(huber);

  OpDef smooth = pair_loss(
      "smooth_l1_loss", "½ (a - b)² / beta up to |a - b| = beta, then |a - b| - ½ beta.",
      [](const double* x) {
        const double d = std::abs(x[0] - x[1]), beta = x[2];
        return d < beta ? 0.5 * d * d / beta : d - 0.5 * beta;
      },
      grad_smooth);
  smooth.attrs = &attr_type<SmoothAttrs>();
  smooth.infer = infer_smooth;
  smooth.cases = [] { return pair_cases({-2, 2}, {-2, 2}, {SmoothAttrs{}, SmoothAttrs{0.6}}); };
  ops.add(smooth);
}

void register_likelihoods(OpRegistry& ops) {
  OpDef binary = pair_loss(
      "bce_loss", "-(b log a + (1 - b) log(1 - a)), logarithms cut at -100.",
      [](const double* x) { return -(x[1] * cut_log(x[0]) + (1 - x[1]) * cut_log(1 - x[0])); }, grad_bce);
  binary.cases = [] { return pair_cases({0.1, 0.9}, {0, 1}, {op::NoAttrs{}}); };
  ops.add(binary);

  OpDef logits =
      pair_loss("bce_with_logits_loss", "-(pos_weight · target · log sigmoid(x) + (1 - target) · log(1 - sigmoid(x)))",
                bce_logits, grad_bce_logits);
  logits.inputs = {"x", "target", "pos_weight"};
  logits.cases = [] {
    auto cases = pair_cases({-3, 3}, {0, 1}, {op::NoAttrs{}});
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const Shape full = cases[i].in[1].shape;
      const bool whole = i % 2 == 0 || full.rank() == 0;
      cases[i].in.push_back({.shape = whole ? Shape{} : Shape{full.back()}, .low = 0.5, .high = 2});
    }
    return cases;
  };
  ops.add(logits);

  OpDef divergence =
      pair_loss("kl_div_loss", "target · (log target - x), from the target or from its logarithm.", kl, grad_kl);
  divergence.inputs = {"x", "target"};
  divergence.attrs = &attr_type<KlAttrs>();
  divergence.cases = [] { return pair_cases({-3, 0}, {0.1, 1}, {KlAttrs{}, KlAttrs{true}}); };
  ops.add(divergence);

  OpDef margin = pair_loss(
      "hinge_loss", "max(0, margin - target · x)",
      [](const double* x) {
        const double inside = x[2] - x[1] * x[0];
        return inside > 0 || std::isnan(inside) ? inside : 0.0;
      },
      grad_hinge);
  margin.inputs = {"x", "target"};
  margin.attrs = &attr_type<HingeAttrs>();
  margin.infer = infer_hinge;
  margin.cases = [] { return pair_cases({-2, 2}, {-1, 1}, {HingeAttrs{}, HingeAttrs{0.4}}); };
  ops.add(margin);
}

}  // namespace

void register_ops_pair_loss(OpRegistry& ops) {
  register_differences(ops);
  register_likelihoods(ops);
}

}  // namespace starling
