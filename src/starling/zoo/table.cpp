#include "starling/zoo/table.h"

#include <algorithm>

#include "starling/base/error.h"
#include "starling/nn/own_loss.h"
#include "starling/ops/api/loss.h"
#include "starling/ops/api/random.h"
#include "starling/ops/api/shape_ops.h"

namespace starling {
void register_zoo_nets(zoo::Table& into);  // generated
}

namespace starling::zoo {

const Table& nets() {
  static const Table table = [] {
    Table made;
    register_zoo_nets(made);
    return made;
  }();
  return table;
}

Sized Table::bench(const std::string& name) const {
  Sized sized{by_name(name)};
  sized.net.options = sizes_.at(name).bench;
  sized.batch = sizes_.at(name).batch;
  return sized;
}

Sized Table::small(const std::string& name) const {
  Sized sized{by_name(name)};
  sized.net.options = sizes_.at(name).small;
  sized.batch = sizes_.at(name).small_batch;
  return sized;
}

bool has_option(const Net& net, const std::string& key) {
  return std::any_of(net.kind->settings.begin(), net.kind->settings.end(),
                     [&](const auto& setting) { return setting.key == key; });
}

Net with(const Net& net, const nlohmann::json& options) {
  nlohmann::json all = net.json();
  all.update(options);
  Net changed = net;
  changed.options = net.kind->read(ConfigNode::parse(all.dump(), net.name), {});  // JSON is YAML
  return changed;
}

Net fitted(const Net& net, const DataFacts& data, std::span<const std::string> given) {
  nlohmann::json open = nlohmann::json::object();
  const auto take = [&](const char* key, std::int64_t value) {
    if (value > 0 && has_option(net, key) && std::find(given.begin(), given.end(), key) == given.end())
      open[key] = value;
  };
  take("classes", data.classes);
  take("vocabulary", data.vocabulary);
  take("target_vocabulary", data.target_vocabulary);
  if (data.target.rank() == 1) take("target_tokens", data.target[0]);
  if (data.sample.rank() > 0) take("inputs", data.sample.numel());
  if (data.sample.rank() == 1) take("tokens", data.sample[0]);
  if (data.sample.rank() == 3) {
    take("channels", data.sample[0]);
    if (data.sample[1] == data.sample[2]) take("image", data.sample[1]);
  }
  return open.empty() ? net : with(net, open);
}

TensorList random_batch(const Recipe& recipe, std::int64_t batch, DType dtype) {
  TensorList made;
  for (const Field& field : recipe.fields) {
    Shape shape = field.sample;
    shape.insert(0, batch);
    made.push_back(field.below > 0 ? randint(shape, {.high = field.below})
                   : field.unit    ? uniform(shape, {.dtype = dtype})
                                   : normal(shape, {.dtype = dtype}));
  }
  return made;
}

Tensor loss(const Tensor& logits, const Tensor& labels) {
  if (logits.rank() == 2) return cross_entropy(logits, labels);
  check(logits.rank() == 3, "[zoo] expected logits [n, classes] or [n, t, classes], got {}", to_string(logits.type()));
  return cross_entropy(reshape(logits, {-1, logits.size(2)}), reshape(labels, {-1}));
}

Tensor loss(const Recipe& recipe, nn::Module& net, std::span<const Tensor> fields) {
  check(!fields.empty() && fields.size() >= recipe.fields.size(), "[zoo] expected a batch of {} fields, got {}",
        recipe.fields.size(), fields.size());
  if (auto* own = dynamic_cast<nn::OwnLoss*>(&net)) return own->own_loss(fields).loss;
  if (recipe.objective == "reconstruct") return mse(net(fields[0]), fields[0]);
  const Tensor logits = net(fields[0]);
  return recipe.objective == "next_token" ? loss(logits, fields[1]) : cross_entropy(logits, fields[1]);
}

}  // namespace starling::zoo
