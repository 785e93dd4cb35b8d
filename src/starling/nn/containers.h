#pragma once

#include "starling/nn/module.h"
#include "starling/nn/options.h"
#include "starling/nn/residual.h"

namespace starling::nn {

enum class Join : std::uint8_t { concat, sum, product };
struct JoinOptions {
  std::int64_t axis = 1;  // of concat; 1: the channels
  static Settings settings();
};

// Layers with several inputs and one output: concatenation, sum, product, and the first minus the second.
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
  Tensor forward(const Tensor& x) override;  // throws: two inputs needed
  TensorList forward_list(std::span<const Tensor> xs) override;
};

// Branches that all read x; their outputs are joined. An empty Sequential is the identity.
class Parallel : public Module {
 public:
  explicit Parallel(Join join = Join::concat, std::int64_t axis = 1) : join_(join), axis_(axis) {}
  template <class M>
  Parallel& add(const std::string& name, M branch) {
    return add_shared(name, std::make_shared<M>(std::move(branch)));
  }
  Parallel& add_shared(const std::string& name, std::shared_ptr<Module> branch) {
    branches_.push_back(add_module(name, std::move(branch)));
    return *this;
  }

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  Join join_;
  std::int64_t axis_;
  std::vector<std::shared_ptr<Module>> branches_;
};

// Numbered list of modules for a parent that calls them itself; not callable, as in PyTorch.
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
  Tensor forward(const Tensor& x) override;  // throws

 private:
  std::vector<std::shared_ptr<Module>> modules_;
};

// Sequential of the modules that `make` returns for 0 … times - 1, named "1", "2" and so on.
class Repeat : public Sequential {
 public:
  Repeat(std::int64_t times, const std::function<std::shared_ptr<Module>(std::int64_t)>& make);
};

// One module applied several times, with shared weights.
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
