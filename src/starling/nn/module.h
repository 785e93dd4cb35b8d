#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "starling/tensor/tensor.h"

namespace starling::nn {

// A part of a network: named parameters, buffers (state that no gradient reaches, such as running statistics), named
// submodules, and what it does to a tensor. Calling it pushes its name on the scope path, so that graphs and random
// numbers know where they are.
class Module {
 public:
  virtual ~Module() = default;

  Tensor operator()(const Tensor& x);

  // In order of declaration, submodules included; names are paths such as "fc1.weight".
  std::vector<Tensor> parameters() const;
  std::vector<std::pair<std::string, Tensor>> named_parameters() const;
  std::int64_t parameter_count() const;
  std::vector<Tensor> buffers() const;  // in the same order; a checkpoint needs both
  std::vector<std::pair<std::string, Tensor>> named_buffers() const;

  void train(bool on = true);  // dropout and the like are active
  void eval() { train(false); }
  bool training() const;  // compiled functions that ask are traced anew when it changes

  // Moves or converts every parameter and buffer, which stays the same tensor; optimizers are to be made afterwards,
  // since their state does not follow. Buffers of integers keep their dtype.
  void to(Device device);
  void to(DType dtype);

  const std::string& name() const { return name_; }
  void set_name(const std::string& path);  // renames parameters, buffers and submodules below it

 protected:
  virtual Tensor forward(const Tensor& x) = 0;

  // The addresses stay while others are added.
  Tensor& add_parameter(std::string name, Tensor value);
  Tensor& add_buffer(std::string name, Tensor value);
  template <class M>
  std::shared_ptr<M> add_module(std::string name, std::shared_ptr<M> module) {
    children_.emplace_back(std::move(name), module);
    set_name(name_);
    return module;
  }

 private:
  struct Entry {
    std::string name;
    std::shared_ptr<Tensor> tensor;
  };
  using Entries = std::vector<Entry> Module::*;
  Tensor& add_entry(Entries entries, std::string name, Tensor value);
  void collect(Entries entries, std::vector<std::pair<std::string, Tensor>>& into) const;
  void replace(const std::function<Tensor(const Tensor&)>& change);

  std::string name_;
  std::shared_ptr<bool> training_ = std::make_shared<bool>(true);
  std::vector<Entry> parameters_;
  std::vector<Entry> buffers_;
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> children_;
};

// One module after another; a cheap handle, copies share the modules.
class Sequential : public Module {
 public:
  Sequential() = default;
  template <class M>
  Sequential& add(std::string name, M module) {
    steps_.push_back(add_module(std::move(name), std::make_shared<M>(std::move(module))));
    return *this;
  }
  std::size_t size() const { return steps_.size(); }

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  std::vector<std::shared_ptr<Module>> steps_;
};

}  // namespace starling::nn
