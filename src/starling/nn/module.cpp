#include "starling/nn/module.h"

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>
#include <typeinfo>

#include "starling/base/config/nearest.h"
#include "starling/base/error.h"
#include "starling/base/error_text.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/argument_error.h"
#include "starling/ops/def/scopes/scope.h"
#include "starling/tensor/interpreter.h"
#include "starling/tensor/without_memory.h"

namespace starling::nn {

// Context of a call: the name scope, the guard of frozen parameters, the hooks.
class Module::Call {
 public:
  Call(Module& module, std::span<const Tensor> in) : module_(module), in_(in) {
    if (!module.name_.empty()) scope_.emplace(module.name_.substr(module.name_.rfind('.') + 1));
    if (!module.parameters_.empty()) current_interpreter().depends_on(module.frozen_);
    for (const auto& [number, hooks] : module.hooks_) {
      if (hooks.before) hooks.before(module, in);
    }
  }
  void done(std::span<const Tensor> out) const {
    for (const auto& [number, hooks] : module_.hooks_) {
      if (hooks.after) hooks.after(module_, in_, out);
    }
  }

 private:
  Module& module_;
  std::span<const Tensor> in_;
  std::optional<NameScope> scope_;
};

namespace {

// An error of class E that already names the layer it happened in.
template <class E>
class InLayer final : public E {
 public:
  using E::E;
};

// Adds the path of the innermost layer to an error of what it computes: in a deep network the op alone does not tell
// where. Errors of other classes mean something to those who catch them, and pass unchanged.
template <class F>
auto in_layer(const std::string& layer, F&& forward) {
  try {
    return forward();
  } catch (const Error& error) {
    const auto told = [&] { return fmt::format("{} (in {})", without_rank(error.what()), layer); };
    if (layer.empty()) throw;
    if (typeid(error) == typeid(ArgumentError)) throw InLayer<ArgumentError>(told());
    if (typeid(error) == typeid(Error)) throw InLayer<Error>(told());
    throw;
  }
}

}  // namespace

Tensor Module::operator()(const Tensor& x) {
  const Call call(*this, {&x, 1});
  Tensor y = in_layer(name_, [&] { return forward(x); });
  call.done({&y, 1});
  return y;
}

TensorList Module::operator()(std::span<const Tensor> xs) {
  const Call call(*this, xs);
  TensorList ys = in_layer(name_, [&] { return forward_list(xs); });
  call.done({ys.data(), ys.size()});
  return ys;
}

TensorList Module::forward_list(std::span<const Tensor> xs) {
  if (xs.size() != 1) fail("[{}] expected one input, got {}", kind(), xs.size());
  return {forward(xs[0])};
}

int Module::add_hooks(CallHooks hooks) {
  const int number = hooks_.empty() ? 0 : hooks_.back().first + 1;
  hooks_.emplace_back(number, std::move(hooks));
  return number;
}

void Module::remove_hooks(int number) {
  std::erase_if(hooks_, [&](const auto& entry) { return entry.first == number; });
}

std::string Module::kind() const {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(typeid(*this).name(), nullptr, nullptr, &status), std::free);
  const std::string name = status == 0 ? text.get() : typeid(*this).name();
  return name.substr(name.rfind(':') + 1);
}

void Module::expect_new(const std::string& name) const {
  const auto taken = [&](const auto& entries, const auto& name_of) {
    return std::any_of(entries.begin(), entries.end(), [&](const auto& entry) { return name_of(entry) == name; });
  };
  const auto entry_name = [](const Entry& entry) { return entry.name; };
  check(!name.empty() && name.find('.') == std::string::npos, "[{}] expected a name without dots, got '{}'", kind(),
        name);
  check(!taken(parameters_, entry_name) && !taken(buffers_, entry_name) &&
            !taken(children_, [](const auto& child) { return child.first; }),
        "[{}] expected a new name, got '{}' again", kind(), name);
}

Tensor& Module::add_entry(Entries entries, std::string name, Tensor value) {
  expect_new(name);
  (this->*entries).push_back({std::move(name), std::make_shared<Tensor>(std::move(value))});
  set_name(name_);
  return *(this->*entries).back().tensor;
}

Tensor& Module::add_parameter(std::string name, Tensor value) {
  value.set_requires_grad();
  return add_entry(&Module::parameters_, std::move(name), std::move(value));
}

Tensor& Module::add_buffer(std::string name, Tensor value) {
  return add_entry(&Module::buffers_, std::move(name), std::move(value));
}

void Module::add_child(std::string name, std::shared_ptr<Module> module) {
  check(module != nullptr, "[{}] expected a module to add as '{}', got none", kind(), name);
  expect_new(name);
  children_.emplace_back(std::move(name), std::move(module));
  set_name(name_);
}

void Module::replace_module(const std::string& name, std::shared_ptr<Module> module) {
  check(module != nullptr, "[{}] expected a module in the place of '{}', got none", kind(), name);
  for (auto& [own, child] : children_) {
    if (own != name) continue;
    module->train(training());
    child = std::move(module);
    set_name(name_);
    return;
  }
  fail("[{}] expected the name of a submodule, got '{}'", kind(), name);
}

// Visits entries backwards, so that shared tensors keep the name that comes first.
void Module::set_name(const std::string& path) {
  name_ = path;
  const std::string prefix = path.empty() ? "" : path + ".";
  for (auto child = children_.rbegin(); child != children_.rend(); ++child)
    child->second->set_name(prefix + child->first);
  for (auto buffer = buffers_.rbegin(); buffer != buffers_.rend(); ++buffer)
    buffer->tensor->set_name(prefix + buffer->name);
  for (auto parameter = parameters_.rbegin(); parameter != parameters_.rend(); ++parameter)
    parameter->tensor->set_name(prefix + parameter->name);
}

void Module::collect(Entries entries, NamedTensors& into) const {
  for (const auto& entry : this->*entries) into.emplace_back(entry.tensor->name(), *entry.tensor);
  for (const auto& [name, child] : children_) child->collect(entries, into);
}

namespace {

NamedTensors each_once(const NamedTensors& all) {
  NamedTensors once;
  std::set<const TensorImpl*> seen;
  for (const auto& entry : all) {
    if (seen.insert(entry.second.impl()).second) once.push_back(entry);
  }
  return once;
}

std::vector<Tensor> without_names(const NamedTensors& named) {
  std::vector<Tensor> all;
  all.reserve(named.size());
  for (const auto& [name, tensor] : named) all.push_back(tensor);
  return all;
}

}  // namespace

NamedTensors Module::named_parameters() const {
  NamedTensors all;
  collect(&Module::parameters_, all);
  return each_once(all);
}

NamedTensors Module::named_buffers() const {
  NamedTensors all;
  collect(&Module::buffers_, all);
  return each_once(all);
}

std::vector<Tensor> Module::parameters() const { return without_names(named_parameters()); }
std::vector<Tensor> Module::buffers() const { return without_names(named_buffers()); }

std::vector<Tensor> Module::trainable_parameters() const {
  std::vector<Tensor> all = parameters();
  std::erase_if(all, [](const Tensor& tensor) { return !tensor.requires_grad(); });
  return all;
}

std::int64_t Module::parameter_count() const {
  std::int64_t count = 0;
  for (const auto& tensor : parameters()) count += tensor.numel();
  return count;
}

NamedTensors Module::state() const {
  NamedTensors all = named_parameters();
  for (auto& entry : named_buffers()) all.push_back(std::move(entry));
  return all;
}

LoadReport Module::load_state(const NamedTensors& from, const LoadOptions& options) {
  return load_tensors(state(), from, options);
}

std::vector<std::pair<std::string, Module*>> Module::named_modules() {
  std::vector<std::pair<std::string, Module*>> all{{name_, this}};
  for (const auto& [name, child] : children_) {
    for (auto& entry : child->named_modules()) all.push_back(std::move(entry));
  }
  return all;
}

void Module::apply(const std::function<void(Module&)>& f) {
  f(*this);
  for (const auto& [name, child] : children_) child->apply(f);
}

Module& Module::find(const std::string& path) {
  if (path.empty()) return *this;
  const std::string first = path.substr(0, path.find('.'));
  std::vector<std::string> known;
  for (const auto& [name, child] : children_) {
    if (name == first) return child->find(path.size() == first.size() ? "" : path.substr(first.size() + 1));
    known.push_back(name);
  }
  const std::string near = nearest(first, known);
  fail("[{}] expected the name of a submodule{}, got '{}'{}", kind(), name_.empty() ? "" : " of " + name_, first,
       near.empty() ? "" : " (did you mean '" + near + "'?)");
}

void Module::train(bool on) {
  *training_ = on;
  for (auto& [name, child] : children_) child->train(on);
}

bool Module::training() const {
  current_interpreter().depends_on(training_);
  return *training_;
}

void Module::freeze(bool on) {
  *frozen_ = on;
  for (auto& entry : parameters_) entry.tensor->set_requires_grad(!on);
  for (auto& [name, child] : children_) child->freeze(on);
}

void Module::replace(const std::function<Tensor(const Tensor&)>& change) {
  const NoGrad no_grad;
  const auto replace_all = [&](std::vector<Entry>& entries) {
    for (auto& entry : entries) {
      const Tensor changed = change(*entry.tensor);
      if (same(changed, *entry.tensor)) continue;
      // The TensorImpl stays the same: compiled functions see that its type has changed.
      TensorImpl& own = *entry.tensor->impl();
      // Raises the version of the new memory above the old one's, so that gradients do not take it for the values they
      // saved.
      Storage* const memory = changed.impl()->storage.get();
      while (own.storage && memory && memory->version() <= own.storage->version()) memory->bump_version();
      own.dtype = changed.dtype();
      own.device = changed.device();
      own.strides = changed.strides();
      own.storage = changed.impl()->storage;
      own.offset = changed.impl()->offset;
    }
  };
  replace_all(parameters_);
  replace_all(buffers_);
  for (auto& [name, child] : children_) child->replace(change);
}

void Module::to(Device device) {
  replace([&](const Tensor& t) {
    if (t.impl()->storage) return starling::to(t, device);
    t.impl()->device = device;  // deferred, or every rank stores a piece of it elsewhere
    return t;
  });
}

void Module::to(DType dtype) {
  replace([&](const Tensor& t) { return is_float(t.dtype()) ? cast(t, dtype) : t; });
}

Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  for (auto& step : steps_) y = (*step)(y);
  return y;
}

}  // namespace starling::nn
