#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "starling/nn/state.h"
#include "starling/tensor/tensor.h"

namespace starling::nn {

class Module;

// Called around every call of a module: before it with what it is given, after it also with what it made. Tensors may
// be values of a trace. A hook must not add or remove hooks of the module that calls it.
struct CallHooks {
  std::function<void(Module&, std::span<const Tensor> in)> before = {};
  std::function<void(Module&, std::span<const Tensor> in, std::span<const Tensor> out)> after = {};
};

// A part of a network: named parameters, buffers (state that no gradient reaches, such as running statistics), named
// submodules, and what it does to tensors. Calling it pushes its name on the scope path, so that graphs and random
// numbers know where they are. Copies are handles: they share parameters, buffers, submodules and the training mode.
class Module {
 public:
  virtual ~Module() = default;

  Tensor operator()(const Tensor& x);
  // Modules with several inputs or outputs; those that may be left out may be empty handles or not be there at all.
  TensorList operator()(std::span<const Tensor> xs);
  TensorList operator()(std::initializer_list<Tensor> xs) { return (*this)(std::span(xs.begin(), xs.size())); }

  // In order of declaration, submodules included, each tensor once; names are paths such as "fc1.weight".
  std::vector<Tensor> parameters() const;
  NamedTensors named_parameters() const;
  std::vector<Tensor> trainable_parameters() const;  // without the frozen ones
  std::int64_t parameter_count() const;
  std::vector<Tensor> buffers() const;  // in the same order; a checkpoint needs both
  NamedTensors named_buffers() const;

  // Parameters, then buffers: the tensors themselves. Loading copies into them, floats are converted to their dtype;
  // see state.h for what is reported and what is refused.
  NamedTensors state() const;
  LoadReport load_state(const NamedTensors& from, const LoadOptions& options = {});

  // Submodules: those of this one by name; this one (under its own path, "" at the top) and all below it by path.
  const std::vector<std::pair<std::string, std::shared_ptr<Module>>>& children() const { return children_; }
  std::vector<std::pair<std::string, Module*>> named_modules();
  void apply(const std::function<void(Module&)>& f);  // to this one, then to all below it
  Module& find(const std::string& path);              // "stage1.conv2", relative to this one; throws naming the closest

  void train(bool on = true);  // dropout and the like are active
  void eval() { train(false); }
  bool training() const;  // compiled functions that ask are traced anew when it changes

  // Whether parameters, here and below, take part in training. Compiled functions are traced anew when it changes;
  // optimizers are to be made afterwards, of trainable_parameters().
  void freeze(bool on = true);
  void unfreeze() { freeze(false); }

  // Moves or converts every parameter and buffer, which stays the same tensor; optimizers are to be made afterwards,
  // since their state does not follow. Buffers of integers keep their dtype.
  void to(Device device);
  void to(DType dtype);

  const std::string& name() const { return name_; }
  void set_name(const std::string& path);  // renames parameters, buffers and submodules below it
  std::string kind() const;                // the name of its class: Conv2d

  int add_hooks(CallHooks hooks);  // of this handle, not of copies made before; gives the number to remove them by
  void remove_hooks(int number);

 protected:
  virtual Tensor forward(const Tensor& x) = 0;
  // Modules with several inputs or outputs override this one, and forward() as the common case of it.
  virtual TensorList forward_list(std::span<const Tensor> xs);

  // The addresses stay while others are added. A tensor that another module has already is shared with it, and keeps
  // the name that comes first.
  Tensor& add_parameter(std::string name, Tensor value);
  Tensor& add_buffer(std::string name, Tensor value);
  template <class M>
  std::shared_ptr<M> add_module(std::string name, std::shared_ptr<M> module) {
    add_child(std::move(name), module);
    return module;
  }

 private:
  struct Entry {
    std::string name;
    std::shared_ptr<Tensor> tensor;
  };
  using Entries = std::vector<Entry> Module::*;
  class Call;
  Tensor& add_entry(Entries entries, std::string name, Tensor value);
  void add_child(std::string name, std::shared_ptr<Module> module);
  void expect_new(const std::string& name) const;
  void collect(Entries entries, NamedTensors& into) const;
  void replace(const std::function<Tensor(const Tensor&)>& change);

  std::string name_;
  std::shared_ptr<bool> training_ = std::make_shared<bool>(true);
  std::shared_ptr<bool> frozen_ = std::make_shared<bool>(false);
  std::vector<Entry> parameters_;
  std::vector<Entry> buffers_;
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> children_;
  std::vector<std::pair<int, CallHooks>> hooks_;
};

// One module after another; a cheap handle, copies share the modules.
class Sequential : public Module {
 public:
  Sequential() = default;
  template <class M>
  Sequential& add(std::string name, M module) {
    return add_shared(std::move(name), std::make_shared<M>(std::move(module)));
  }
  Sequential& add_shared(std::string name, std::shared_ptr<Module> module) {
    steps_.push_back(add_module(std::move(name), std::move(module)));
    return *this;
  }
  std::size_t size() const { return steps_.size(); }
  Module& operator[](std::size_t i) const { return *steps_.at(i); }

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  std::vector<std::shared_ptr<Module>> steps_;
};

}  // namespace starling::nn
