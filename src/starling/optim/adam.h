#pragma once

#include "starling/base/config/settings.h"
#include "starling/ops/updates/adam.h"
#include "starling/optim/rule_optimizer.h"

namespace starling::optim {

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;
  std::string name = "adam";  // prefix of its variables: "adam.lr"
  static Settings settings();
};

// Adam (Kingma and Ba 2015): mean gradient divided by its root mean square. Weight decay adds to the gradient.
class Adam : public RuleOptimizer<op::AdamUpdateAttrs> {
 public:
  explicit Adam(std::vector<ParameterGroup> groups, const AdamOptions& options = {});
  explicit Adam(std::vector<Tensor> parameters, const AdamOptions& options = {})
      : Adam(one_group(std::move(parameters)), options) {}
};

struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
  bool amsgrad = false;
  std::string name = "adamw";  // prefix of its variables: "adamw.lr"
  static Settings settings();
};

// Adam with decoupled weight decay (Loshchilov and Hutter 2019): each step also shrinks weights by lr · weight_decay.
class AdamW : public RuleOptimizer<op::AdamUpdateAttrs> {
 public:
  explicit AdamW(std::vector<ParameterGroup> groups, const AdamWOptions& options = {});
  explicit AdamW(std::vector<Tensor> parameters, const AdamWOptions& options = {})
      : AdamW(one_group(std::move(parameters)), options) {}
};

}  // namespace starling::optim
