#pragma once

#include "starling/nn/module.h"
#include "starling/nn/options.h"
#include "starling/nn/residual.h"

namespace starling::nn {

enum class Join : std::uint8_t { concat, sum, product };
struct JoinOptions {
  std::int64_t axis = 1;  // of concat: the channels
  static Settings settings();
};

// Several tensors into one: beside each other along an axis, added, multiplied, the first without the second.
class Concat : public Module {
 public:
  explicit Concat(const JoinOptions& options = {}) : axis_(options.axis) {}

 protected:
  Tensor forward(const Tensor& x) override { return x; }
  TensorList forward_list(std::span<const Tensor> xs) override;

 private:
  std::int64_t axis_;
};
class Add : public Module {
 protected:
  Tensor forward(const Tensor& x) override { return x; }
  TensorList forward_list(std::span<const Tensor> xs) override;
};
class Multiply : public Module {
 protected:
  Tensor forward(const Tensor& x) override { return x; }
  TensorList forward_list(std::span<const Tensor> xs) override;
};
class Subtract : public Module {
 protected:
  Tensor forward(const Tensor& x) override;  // refuses
  TensorList forward_list(std::span<const Tensor> xs) override;
};

// Branches that all see x, and what they make of it joined. An empty Sequential is the identity.
class Parallel : public Module {
 public:
  explicit Parallel(Join join = Join::concat, std::int64_t axis = 1) : join_(join), axis_(axis) {}
  template <class M>
  Parallel& add(std::string name, M branch) {
    return add_shared(std::move(name), std::make_shared<M>(std::move(branch)));
  }
  Parallel& add_shared(std::string name, std::shared_ptr<Module> branch) {
    branches_.push_back(add_module(std::move(name), std::move(branch)));
    return *this;
  }

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  Join join_;
  std::int64_t axis_;
  std::vector<std::shared_ptr<Module>> branches_;
};

// Modules by number, for modules that call them in ways of their own; not called itself.
class ModuleList : public Module {
 public:
  template <class M>
  ModuleList& add(M module) {
    return add_shared(std::make_shared<M>(std::move(module)));
  }
  ModuleList& add_shared(std::shared_ptr<Module> module) {
    modules_.push_back(add_module(std::to_string(modules_.size()), std::move(module)));
    return *this;
  }
  std::size_t size() const { return modules_.size(); }
  Module& operator[](std::size_t i) const { return *modules_.at(i); }

 protected:
  Tensor forward(const Tensor& x) override;  // refuses

 private:
  std::vector<std::shared_ptr<Module>> modules_;
};

// The modules that `make` makes for 0 … times - 1, one after another, called "1", "2" and so on.
class Repeat : public Sequential {
 public:
  Repeat(std::int64_t times, const std::function<std::shared_ptr<Module>(std::int64_t)>& make);
};

// One module applied several times over, with the same weights.
class Recur : public Module {
 public:
  Recur(std::int64_t times, std::shared_ptr<Module> body);

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  std::int64_t times_;
  std::shared_ptr<Module> body_;
};

}  // namespace starling::nn
