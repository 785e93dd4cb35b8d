#include "starling/graph/cost/cost_rules.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "starling/base/error.h"
#include "starling/ops/api/attention.h"
#include "starling/ops/def/fused.h"

namespace starling {
namespace {

double elements(const TensorType& type) { return static_cast<double>(type.shape.numel()); }
double out_elements(const CostCall& call) { return elements(call.out[0]); }

double size(const TensorType& type, int dim) {
  const int rank = static_cast<int>(type.shape.rank());
  const int at = dim < 0 ? rank + dim : dim;
  return at < 0 || at >= rank ? 1.0 : static_cast<double>(type.shape[static_cast<std::size_t>(at)]);
}

bool flag(const CostCall& call, std::string_view name) {
  const AttrField* field = call.attrs.find(name);
  return field != nullptr && call.attrs.get<bool>(*field);
}

double number(const CostCall& call, std::string_view name) {
  const AttrField* field = call.attrs.find(name);
  return field != nullptr && field->kind == AttrKind::real ? call.attrs.get<double>(*field) : 0.0;
}

bool activated(const CostCall& call) {
  const AttrField* field = call.attrs.find("activation");
  return field != nullptr && !call.attrs.get<Symbol>(*field).empty();
}

// Product of the sizes of a window; one size may stand for all dimensions.
double window(const CostCall& call) {
  const AttrField* field = call.attrs.find("kernel");
  if (field == nullptr) return 1;
  std::vector<double> sizes;
  if (field->kind == AttrKind::integer) sizes.push_back(static_cast<double>(call.attrs.get<std::int64_t>(*field)));
  if (field->kind == AttrKind::pair) {
    for (auto v : call.attrs.get<Pair>(*field)) sizes.push_back(static_cast<double>(v));
  }
  if (field->kind == AttrKind::ints) {
    for (auto v : call.attrs.get<Shape>(*field)) sizes.push_back(static_cast<double>(v));
  }
  if (sizes.size() == 1) return std::pow(sizes[0], std::max(1, call.in[0].shape.rank() - 2));
  double product = 1;
  for (double v : sizes) product *= v;
  return product;
}

// Products.

double product_depth(const CostCall& call, std::size_t a) {
  return call.in[a].shape.rank() > 1 && flag(call, "trans_a") ? size(call.in[a], -2) : size(call.in[a], -1);
}
double matmul(const CostCall& call) { return 2 * out_elements(call) * product_depth(call, 0); }
double matmul_act(const CostCall& call) { return matmul(call) + 2 * out_elements(call); }

double linear(const CostCall& call) {
  const double y = out_elements(call);
  return 2 * y * size(call.in[1], -1) + (call.in.size() > 2 ? y : 0) + (activated(call) ? y : 0);
}

// v = momentum v + g, w -= lr v; further terms if requested.
double update_each(const CostCall& call) {
  return 4 + (number(call, "weight_decay") != 0 ? 2 : 0) + (flag(call, "nesterov") ? 2 : 0);
}
double sgd(const CostCall& call) { return update_each(call) * elements(call.in[0]); }
double sgd_many(const CostCall& call) {
  double weights = 0;
  for (const auto& type : call.out) weights += elements(type);
  return update_each(call) * weights / 2;  // half of the results are velocities
}
double sgd_rows(const CostCall& call) { return update_each(call) * elements(call.in[3]); }
double matmul_sgd(const CostCall& call) {
  return elements(call.in[0]) * (2 * product_depth(call, 2) + update_each(call));
}

double matmul_sgd_rows(const CostCall& call) {
  return size(call.in[2], -1) * size(call.in[3], -1) * (2 * size(call.in[2], 0) + update_each(call));
}

// Optimizer rules: about four operations for the weight and for each state.
double updates(const CostCall& call) {
  double targets = 0;
  for (const auto& type : call.out) targets += elements(type);
  return 4 * targets;
}
double updates_of_rows(const CostCall& call) {
  return 4 * static_cast<double>(call.out.size()) * elements(call.in[call.out.size() + 1]);
}

double einsum(const CostCall& call) {
  const AttrField* field = call.attrs.find("equation");
  const std::string text = call.attrs.get<Symbol>(*field).str();
  std::map<char, double> sizes;
  double rest = 1;  // elements of the ellipsis
  std::size_t operand = 0;
  int dim = 0;
  for (std::size_t i = 0; i < text.size() && text[i] != '-' && operand < call.in.size(); ++i) {
    if (text[i] == ',') {
      ++operand;
      dim = 0;
    } else if (std::isalpha(static_cast<unsigned char>(text[i])) != 0) {
      double& known = sizes[text[i]];
      known = std::max(known, size(call.in[operand], dim++));
    } else if (text[i] == '.') {
      int letters = 0;
      for (std::size_t j = i; j < text.size() && text[j] != ',' && text[j] != '-'; ++j)
        letters += std::isalpha(static_cast<unsigned char>(text[j])) != 0 ? 1 : 0;
      double here = 1;
      for (; dim + letters < call.in[operand].shape.rank(); ++dim) here *= size(call.in[operand], dim);
      rest = std::max(rest, here);
      i += 2;
    }
  }
  double product = rest;
  for (const auto& [letter, value] : sizes) product *= value;
  return product * std::max<double>(1, static_cast<double>(call.in.size()));
}

double dot(const CostCall& call) { return 2 * elements(call.in[0]); }
double csr_matmul(const CostCall& call) { return 2 * elements(call.in[2]) * size(call.in[3], -1); }
double csr_sample(const CostCall& call) { return 2 * elements(call.in[1]) * size(call.in[2], -1); }

// Convolutions: every output is a sum over its taps.

double taps(const TensorType& weight) { return elements(weight) / std::max(1.0, size(weight, 0)); }
double conv(const CostCall& call) {
  const double y = out_elements(call);
  return 2 * y * taps(call.in[1]) + (call.in.size() > 2 ? y : 0) + (activated(call) ? y : 0);
}
double conv_input(const CostCall& call) { return 2 * elements(call.in[0]) * taps(call.in[1]); }
double conv_weight(const CostCall& call) { return 2 * elements(call.in[0]) * taps(call.out[0]); }
double conv_transpose(const CostCall& call) {
  return 2 * elements(call.in[0]) * taps(call.in[1]) + (call.in.size() > 2 ? out_elements(call) : 0);
}
double local_conv(const CostCall& call) {
  return 2 * size(call.in[0], 0) * elements(call.in[1]) + (call.in.size() > 2 ? out_elements(call) : 0);
}

// Attention: visible pairs of query and key.

double pairs(const CostCall& call, std::size_t q) {
  const double l = size(call.in[q], -2), s = size(call.in[q + 1], -2);
  const double heads = elements(call.in[q]) / std::max(1.0, l * size(call.in[q], -1));
  if (!flag(call, "causal")) return heads * l * s;
  const double full = std::min(l, s);  // query i sees i + 1 keys, up to all
  return heads * (full * (full + 1) / 2 + (l - full) * s);
}
double attention(const CostCall& call) {
  const double d = size(call.in[0], -1), dv = size(call.in[2], -1);
  return pairs(call, 0) * (2 * d + 2 * dv + 5);  // scores, sum of values, softmax
}
double attention_backward(const CostCall& call) {
  const double d = size(call.in[2], -1), dv = size(call.in[4], -1);
  return pairs(call, 2) * (6 * d + 4 * dv + 8);  // scores again, dq, dk; dp, dv; softmax and its gradient
}

// Recurrent layers: a step is a product with the recurrent weights and elementwise work on the gates.

double recurrent(const CostCall& call, std::size_t sequence, std::size_t weights, double each) {
  const double h = size(call.in[weights], -1);
  const double rows = elements(call.in[sequence]) / std::max(1.0, size(call.in[sequence], -1));
  return rows * (2 * elements(call.in[weights]) + each * h);
}
double lstm(const CostCall& call) { return recurrent(call, 0, 1, 13); }
double lstm_backward(const CostCall& call) { return recurrent(call, 4, 3, 25); }
double lstm_tangent(const CostCall& call) { return recurrent(call, 0, 3, 25); }
double gru(const CostCall& call) { return recurrent(call, 0, 1, 14); }
double gru_backward(const CostCall& call) { return recurrent(call, 3, 2, 25); }
double gru_tangent(const CostCall& call) { return recurrent(call, 0, 3, 25); }
double rnn(const CostCall& call) { return recurrent(call, 0, 1, 2); }
double rnn_backward(const CostCall& call) {
  const double steps = std::max(0.0, size(call.in[2], 0) - 1);
  return steps * size(call.in[2], 1) * (2 * elements(call.in[1]) + 4 * size(call.in[1], -1));
}
double rnn_tangent(const CostCall& call) { return recurrent(call, 0, 2, 4); }

// A fused program counts its steps, each over the elements it makes.
double fused(const CostCall& call) {
  const FusedProgram& program = fused_program(call.attrs.as<op::FusedAttrs>().program);
  const auto types = program.infer(call.in);
  double sum = 0;
  for (std::size_t i = static_cast<std::size_t>(program.operands); i < types.size(); ++i) sum += elements(types[i]);
  return sum;
}

double pool(const CostCall& call) { return out_elements(call) * window(call); }
double pool_backward(const CostCall& call) { return elements(call.in[0]) * window(call); }
double of_gradient(const CostCall& call) { return elements(call.in[0]); }
double sorting(const CostCall& call) {
  const double n = std::max(2.0, size(call.in[0], -1));
  return elements(call.in[0]) * std::log2(n);
}

// Factorisations of [.., m, n] matrices.
double cubes(const CostCall& call, double factor) {
  const double m = size(call.in[0], -2), n = size(call.in[0], -1);
  return elements(call.in[0]) * std::min(m, n) * factor;
}
double cholesky(const CostCall& call) { return cubes(call, 1.0 / 3); }
double lu(const CostCall& call) { return cubes(call, 2.0 / 3); }
double solve(const CostCall& call) { return lu(call) + 2 * elements(call.in[1]) * size(call.in[0], -1); }
double inverse(const CostCall& call) { return cubes(call, 2); }
double qr(const CostCall& call) { return cubes(call, 4); }
double eigh(const CostCall& call) { return cubes(call, 9); }
double svd(const CostCall& call) { return cubes(call, 14); }

const std::unordered_map<std::string_view, FlopRule>& rules() {
  static const std::unordered_map<std::string_view, FlopRule> table = {
      {"matmul", matmul},
      {"matmul_act", matmul_act},
      {"linear", linear},
      {"matmul_sgd", matmul_sgd},
      {"matmul_sgd_rows", matmul_sgd_rows},
      {"einsum", einsum},
      {"dot", dot},
      {"csr_matmul", csr_matmul},
      {"csr_sample", csr_sample},
      {"conv1d", conv},
      {"conv2d", conv},
      {"conv3d", conv},
      {"conv2d_backward_input", conv_input},
      {"conv3d_backward_input", conv_input},
      {"conv2d_backward_weight", conv_weight},
      {"conv3d_backward_weight", conv_weight},
      {"conv_transpose1d", conv_transpose},
      {"conv_transpose2d", conv_transpose},
      {"conv_transpose3d", conv_transpose},
      {"local_conv2d", local_conv},
      {"scaled_dot_product_attention", attention},
      {"scaled_dot_product_attention_backward", attention_backward},
      {"lstm_layer", lstm},
      {"lstm_layer_backward", lstm_backward},
      {"lstm_layer_tangent", lstm_tangent},
      {"gru_layer", gru},
      {"gru_layer_backward", gru_backward},
      {"gru_layer_tangent", gru_tangent},
      {"rnn_layer", rnn},
      {"rnn_layer_backward", rnn_backward},
      {"rnn_layer_tangent", rnn_tangent},
      {"fused", fused},
      {"sgd_update", sgd},
      {"sgd_update_many", sgd_many},
      {"sgd_update_rows", sgd_rows},
      {"avg_pool1d", pool},
      {"avg_pool2d", pool},
      {"avg_pool3d", pool},
      {"max_pool1d", pool},
      {"max_pool2d", pool},
      {"max_pool3d", pool},
      {"max_pool1d_values", pool},
      {"max_pool2d_values", pool},
      {"max_pool3d_values", pool},
      {"avg_pool_backward", pool_backward},
      {"max_pool_backward", of_gradient},
      {"embedding_backward", of_gradient},
      {"sort", sorting},
      {"argsort", sorting},
      {"topk", sorting},
      {"cholesky", cholesky},
      {"determinant", lu},
      {"slogdet", lu},
      {"solve", solve},
      {"inverse", inverse},
      {"qr", qr},
      {"eigh", eigh},
      {"svd", svd},
  };
  return table;
}

// Sweeps: mean and variance 4, normalising 2, scale and shift 2; softmax: largest, difference, exp, sum, quotient.
const std::unordered_map<std::string_view, double>& sweeps() {
  static const std::unordered_map<std::string_view, double> table = {
      {"sum", 1},
      {"mean", 1},
      {"max", 1},
      {"min", 1},
      {"prod", 1},
      {"any", 1},
      {"all", 1},
      {"argmax", 1},
      {"argmin", 1},
      {"norm", 2},
      {"var", 4},
      {"std", 4},
      {"logsumexp", 4},
      {"max_backward", 2},
      {"min_backward", 2},
      {"softmax", 5},
      {"log_softmax", 5},
      {"softmax_backward", 4},
      {"log_softmax_backward", 4},
      {"cross_entropy_sum", 4},
      {"cross_entropy_weighted", 5},
      {"cross_entropy_backward", 4},
      {"cross_entropy_weighted_backward", 5},
      {"squared_error", 3},
      {"batch_norm_train", 8},
      {"batch_norm_train_backward", 11},
      {"batch_norm_infer", 4},
      {"batch_norm_infer_backward", 6},
      {"layer_norm", 8},
      {"layer_norm_backward", 11},
      {"group_norm", 8},
      {"group_norm_backward", 11},
      {"instance_norm", 8},
      {"instance_norm_backward", 11},
      {"rms_norm", 5},
      {"rms_norm_backward", 8},
      {"dropout", 2},
      {"cumsum", 1},
      {"cumprod", 1},
      {"linear_recurrence", 2},
      {"rotary", 3},
      {"outer", 1},
      {"adaptive_avg_pool1d", 1},
      {"adaptive_avg_pool2d", 1},
      {"adaptive_avg_pool3d", 1},
      {"adaptive_max_pool1d", 1},
      {"adaptive_max_pool2d", 1},
      {"adaptive_max_pool3d", 1},
      {"global_avg_pool", 1},
      {"global_max_pool", 1},
      {"all_reduce", 1},
      {"ordered_sum", 1},
      {"all_reduce_many", 1},
      {"reduce_to_root", 1},
      {"reduce_scatter", 1},
      // Data movement only.
      {"identity", 0},
      {"hold", 0},
      {"broadcast", 0},
      {"all_gather", 0},
      {"gather_rows", 0},
      {"all_to_all", 0},
      {"cast", 0},
      {"transpose", 0},
      {"permute", 0},
      {"reshape", 0},
      {"squeeze", 0},
      {"unsqueeze", 0},
      {"broadcast_to", 0},
      {"concat", 0},
      {"stack", 0},
      {"split", 0},
      {"slice", 0},
      {"slice_backward", 0},
      {"pad", 0},
      {"flip", 0},
      {"roll", 0},
      {"repeat", 0},
      {"tile", 0},
      {"gather", 0},
      {"take", 0},
      {"index_select", 0},
      {"index_get", 0},
      {"scatter", 0},
      {"embedding", 0},
      {"one_hot", 0},
      {"full", 0},
      {"arange", 0},
      {"eye", 0},
      {"unfold", 0},
      {"diagonal", 0},
      {"diag_embed", 0},
      {"tril", 0},
      {"triu", 0},
      {"max_pool_gather", 0},
      {"label_pick", 0},
      {"label_place", 0},
  };
  return table;
}

}  // namespace

FlopRule flop_rule(std::string_view op) {
  if (op.ends_with("_update") && op != "sgd_update") return updates;
  if (op.ends_with("_update_rows") && op != "sgd_update_rows") return updates_of_rows;
  const auto it = rules().find(op);
  return it == rules().end() ? nullptr : it->second;
}

double flops_per_element(std::string_view op) {
  const auto it = sweeps().find(op);
  return it == sweeps().end() ? -1 : it->second;
}

int gathered_operand(std::string_view op) {
  if (op == "embedding") return 1;
  for (std::string_view one : {"gather", "take", "index_select", "index_get", "embedding_bag"}) {
    if (op == one) return 0;
  }
  return -1;
}

}  // namespace starling
