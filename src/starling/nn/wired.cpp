#include "starling/nn/wired.h"

#include "starling/base/config/nearest.h"
#include "starling/base/error.h"

namespace starling::nn {
namespace {

constexpr const char* kInput = "input";

}  // namespace

std::size_t Wired::value_of(const std::string& name) const {
  if (name == kInput) return 0;
  std::vector<std::string> known{kInput};
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].name == name) return i + 1;
    known.push_back(steps_[i].name);
  }
  const std::string near = nearest(name, known);
  fail("[Wired] expected the name of a module before, got '{}'{}", name,
       near.empty() ? "" : " (did you mean '" + near + "'?)");
}

Wired& Wired::add_shared(const std::string& name, std::shared_ptr<Module> module,
                         const std::vector<std::string>& from) {
  check(name != kInput, "[Wired] expected a name other than '{}', which is what the whole is given", kInput);
  Step step{name, nullptr, {}};
  for (const auto& source : from) step.from.push_back(value_of(source));
  if (from.empty()) step.from.push_back(steps_.size());
  step.module = add_module(name, std::move(module));
  for (const std::size_t value : step.from) last_reader_[value] = steps_.size();
  steps_.push_back(std::move(step));
  last_reader_.push_back(steps_.size());  // no reader yet: kept until the end
  return *this;
}

std::vector<std::string> Wired::unread() const {
  std::vector<bool> read(steps_.size() + 1);
  for (const auto& step : steps_) {
    for (const std::size_t value : step.from) read[value] = true;
  }
  std::vector<std::string> names;
  for (std::size_t i = 0; i + 1 < steps_.size(); ++i) {
    if (!read[i + 1]) names.push_back(steps_[i].name);
  }
  return names;
}

Tensor Wired::forward(const Tensor& x) {
  std::vector<Tensor> values{x};
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    TensorList in;
    for (const std::size_t value : step.from) in.push_back(values[value]);
    for (const std::size_t value : step.from) {
      if (last_reader_[value] == i) values[value] = Tensor();  // freed after its last reader
    }
    Module& module = *step.module;
    if (in.size() == 1)
      values.push_back(module(in[0]));
    else
      values.push_back(module(std::span<const Tensor>(in.data(), in.size()))[0]);
  }
  return values.back();
}

}  // namespace starling::nn
