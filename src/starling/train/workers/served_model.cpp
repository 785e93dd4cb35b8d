#include "starling/train/workers/served_model.h"

#include <map>

#include "starling/base/error.h"

namespace starling::train {

namespace {

constexpr std::int64_t kRowsEach = 64;  // of a server: a piece may be larger than another by one of them

constexpr std::int64_t kLinesEach = 4;  // the same, where lines must stay whole

bool has_rows(const Shape& shape, std::int64_t least) { return shape.rank() >= 2 && shape[0] >= least; }

}  // namespace

std::vector<dist::ps::ServedTensor> served_tensors(const dist::TrainedState& state, int servers, bool whole,
                                                   bool lines) {
  check(state.rule != nullptr, "[servers] expected the optimizer of the weights, got none");
  std::vector<dist::ps::ServedTensor> tensors;
  for (const auto& [name, tensor] : state.weights) {
    dist::ps::ServedTensor one{.name = name,
                               .type = tensor.type(),
                               .by_rows = has_rows(tensor.shape(), servers * (lines ? kLinesEach : kRowsEach)),
                               .whole = whole};
    for (const auto& group : state.rule->groups()) {
      for (const Tensor& parameter : group.parameters) {
        if (!same(parameter, tensor)) continue;
        one.lr_scale = group.lr_scale;
        one.weight_decay = group.weight_decay;
      }
    }
    tensors.push_back(std::move(one));
  }
  return tensors;
}

void ServedModel::put(const dist::TrainedState& state) {
  for (std::size_t i = 0; i < state.weights.size(); ++i) client_->put(i, state.weights[i].tensor);
  client_->load(state.optimizer);
}

void ServedModel::fetch(const dist::TrainedState& state) {
  if (state.optimizer.empty()) {
    for (std::size_t i = 0; i < state.weights.size(); ++i) client_->pull(i, state.weights[i].tensor);
    return client_->wait_all();
  }
  std::map<std::string, Tensor> found;
  for (auto& [name, tensor] : client_->state()) found[name] = tensor;
  for (const auto* part : {&state.weights, &state.optimizer}) {
    for (const auto& [name, tensor] : *part) {
      const auto one = found.find(name);
      check(one != found.end(), "[servers] expected the servers to hold '{}', got none of them", name);
      copy_into(tensor, one->second);
    }
  }
}

}  // namespace starling::train
