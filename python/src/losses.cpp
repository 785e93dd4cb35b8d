#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "define.h"
#include "starling/base/error.h"
#include "starling/ops/api/loss.h"

namespace starling::python {
namespace {

Reduction reduction_named(const std::string& name) {
  if (name == "mean") return Reduction::mean;
  if (name == "sum") return Reduction::sum;
  check(name == "none", "[loss] expected mean, sum or none as reduction, got '{}'", name);
  return Reduction::none;
}

LossOptions options(const std::optional<Arg>& weight, const std::string& reduction) {
  return {given(weight), reduction_named(reduction)};
}

using Pairwise = Tensor (*)(const Tensor&, const Tensor&, const LossOptions&);
template <Pairwise F>
void def_loss(nb::module_& m, const char* name, const char* doc) {
  m.def(
      name,
      [](const Arg& prediction, const Arg& target, const std::optional<Arg>& weight, const std::string& reduction) {
        return F(prediction.tensor, target.tensor, options(weight, reduction));
      },
      nb::arg("prediction"), nb::arg("target"), nb::arg("weight") = nb::none(), nb::arg("reduction") = "mean", doc);
}

using Scaled = Tensor (*)(const Tensor&, const Tensor&, double, const LossOptions&);
template <Scaled F>
void def_scaled_loss(nb::module_& m, const char* name, const char* scale, const char* doc) {
  m.def(
      name,
      [](const Arg& prediction, const Arg& target, double by, const std::optional<Arg>& weight,
         const std::string& reduction) { return F(prediction.tensor, target.tensor, by, options(weight, reduction)); },
      nb::arg("prediction"), nb::arg("target"), nb::arg(scale) = 1.0, nb::arg("weight") = nb::none(),
      nb::arg("reduction") = "mean", doc);
}

}  // namespace

void bind_losses(nb::module_& m) {
  m.def(
      "cross_entropy",
      [](const Arg& logits, const Arg& target, const std::optional<Arg>& weight,
         std::optional<std::int64_t> ignore_index, double label_smoothing, const std::string& reduction) {
        return cross_entropy(logits.tensor, target.tensor,
                             {given(weight), ignore_index, label_smoothing, reduction_named(reduction)});
      },
      nb::arg("logits"), nb::arg("target"), nb::arg("weight") = nb::none(), nb::arg("ignore_index") = nb::none(),
      nb::arg("label_smoothing") = 0.0, nb::arg("reduction") = "mean",
      "-log softmax(logits) at the target: labels, or probabilities of the logits' shape.");
  m.def(
      "nll",
      [](const Arg& log_probs, const Arg& labels, const std::optional<Arg>& weight, std::int64_t ignore_index,
         const std::string& reduction) {
        return nll(log_probs.tensor, labels.tensor, {given(weight), ignore_index, reduction_named(reduction)});
      },
      nb::arg("log_probs"), nb::arg("labels"), nb::arg("weight") = nb::none(), nb::arg("ignore_index") = -100,
      nb::arg("reduction") = "mean", "-log_probs at the labels.");
  def_loss<&mse>(m, "mse", "(prediction - target)²");
  def_loss<&l1>(m, "l1", "|prediction - target|");
  def_loss<&bce>(m, "bce", "-(t log p + (1 - t) log(1 - p))");
  def_scaled_loss<&huber>(m, "huber", "delta", "½ d² up to |d| = delta, then delta · (|d| - ½ delta).");
  def_scaled_loss<&smooth_l1>(m, "smooth_l1", "beta", "½ d² / beta up to |d| = beta, then |d| - ½ beta.");
  def_scaled_loss<&hinge>(m, "hinge", "margin", "max(0, margin - t · x) with t = ±1.");
  m.def(
      "bce_with_logits",
      [](const Arg& logits, const Arg& target, const std::optional<Arg>& pos_weight, const std::optional<Arg>& weight,
         const std::string& reduction) {
        return bce_with_logits(logits.tensor, target.tensor, given(pos_weight), options(weight, reduction));
      },
      nb::arg("logits"), nb::arg("target"), nb::arg("pos_weight") = nb::none(), nb::arg("weight") = nb::none(),
      nb::arg("reduction") = "mean", "bce of sigmoid(logits), without overflow.");
  m.def(
      "kl_div",
      [](const Arg& log_probs, const Arg& target, bool log_target, const std::optional<Arg>& weight,
         const std::string& reduction) {
        return kl_div(log_probs.tensor, target.tensor, log_target, options(weight, reduction));
      },
      nb::arg("log_probs"), nb::arg("target"), nb::arg("log_target") = false, nb::arg("weight") = nb::none(),
      nb::arg("reduction") = "mean", "t · (log t - log_probs)");
  m.def(
      "cosine_embedding",
      [](const Arg& a, const Arg& b, const Arg& labels, double margin, const std::optional<Arg>& weight,
         const std::string& reduction) {
        return cosine_embedding(a.tensor, b.tensor, labels.tensor, margin, options(weight, reduction));
      },
      nb::arg("a"), nb::arg("b"), nb::arg("labels"), nb::arg("margin") = 0.0, nb::arg("weight") = nb::none(),
      nb::arg("reduction") = "mean", "1 - cos(a, b) where the label is 1, max(0, cos(a, b) - margin) where it is -1.");
  m.def(
      "triplet",
      [](const Arg& anchor, const Arg& positive, const Arg& negative, double margin, double eps,
         const std::optional<Arg>& weight, const std::string& reduction) {
        return triplet(anchor.tensor, positive.tensor, negative.tensor, margin, eps, options(weight, reduction));
      },
      nb::arg("anchor"), nb::arg("positive"), nb::arg("negative"), nb::arg("margin") = 1.0, nb::arg("eps") = 1e-6,
      nb::arg("weight") = nb::none(), nb::arg("reduction") = "mean",
      "max(0, |anchor - positive| - |anchor - negative| + margin)");
  m.def(
      "ctc",
      [](const Arg& log_probs, const Arg& targets, const Arg& input_lengths, const Arg& target_lengths,
         const std::optional<Arg>& weight, const std::string& reduction, nb::kwargs k) {
        return ctc(log_probs.tensor, targets.tensor, input_lengths.tensor, target_lengths.tensor,
                   attrs_from<op::CtcAttrs>(k, "ctc"), options(weight, reduction));
      },
      nb::arg("log_probs"), nb::arg("targets"), nb::arg("input_lengths"), nb::arg("target_lengths"),
      nb::arg("weight") = nb::none(), nb::arg("reduction") = "mean", nb::arg("attributes"),
      "Connectionist temporal classification.");
}

}  // namespace starling::python
